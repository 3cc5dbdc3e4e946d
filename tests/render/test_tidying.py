"""What `barca gc` says."""

from barca.render.tidying import gc_view

TOLD = {
    "dry_run": False,
    "tagged": 0,
    "tagged_bytes": 0,
    "limit_bytes": None,
    "given_up": {"repeated": 3, "superseded": 12_000, "current": 0},
    "results": 12_003,
    "repacked": 1,
    "deleted": 2,
    "deleted_bytes": 3_500_000,
    "waiting": 0,
    "waiting_bytes": 0,
    "kept": 1,
    "kept_bytes": 1_200,
}


def lines(**changes: object) -> list[str]:
    return [str(line) for line in gc_view({**TOLD, **changes})]


def test_what_went_and_what_is_left():
    assert lines() == [
        "results given up: 3 repeated, 12,000 superseded",
        "deleted: 2 packs (3.3 MiB); 1 pack merged into others",
        "kept: 1 pack (1.2 KiB)",
    ]


def test_what_waits_for_runs_in_progress():
    assert lines(waiting=1, waiting_bytes=10)[-1] == (
        "runs in progress may still read 1 pack (10 B), so they stay"
    )


def test_a_dry_run():
    nothing = {"repeated": 0, "superseded": 0, "current": 0}
    assert lines(dry_run=True, given_up=nothing) == [
        "results that would be given up: none; nothing was changed"
    ]
