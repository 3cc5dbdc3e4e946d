"""Sinks: places outside of the store to which results are published.

`targets` says what a declared sink is, `contents` reads what keys hold, `files` and `dataset` write it,
`depots` are the places: `local` directories and `remote` prefixes of object stores. `publishing` is what a
worker calls after it stored the results of a call, `mirror` what a run does when its steps have ended.
"""

from __future__ import annotations

from barca.io.sinks.publishing import Publication, publish
from barca.io.sinks.targets import Target, targets_of

__all__ = ["Publication", "Target", "publish", "targets_of"]
