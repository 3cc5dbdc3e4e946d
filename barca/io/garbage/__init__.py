"""Garbage: results that nothing asks for any more, and packs that hold little else.

`choice` decides what goes, over frames; `repack` puts the fragments that stay into fewer packs; `collect`
does both to a ledger and its store, so that at every moment each row names a pack that is there.
"""
