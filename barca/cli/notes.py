"""Notes on stderr about what a result does not hold."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

from barca.cli.output import write
from barca.cli.paths import outputs
from barca.errors import plural
from barca.render.text import safe

if TYPE_CHECKING:
    from collections.abc import Mapping

    from barca.project import Project
    from barca.project.moments import Moment


def moment_of(project: Project, as_of: str | None) -> Moment | None:
    """The moment of `--as-of`.

    Raises:
        UsageError: There is no such tag, run or time.
    """
    return None if as_of is None else project.moment(as_of)


def note_moment(moment: Moment | None) -> None:
    """Say on stderr which moment is shown."""
    if moment is not None:
        write(sys.stderr, f"note: as of {safe(moment)}\n")


def note_unlisted(document: Mapping[str, Any]) -> None:
    """Say on stderr how many keys the result does not list."""
    for output in outputs(document).values():
        listed = output.get("_barca_partitions") if isinstance(output, dict) else None
        if listed and (missing := listed["keys"] - len(listed["outputs"])) > 0:
            which = "the first of those" if listed["truncated"] else "those"
            write(
                sys.stderr,
                f"note: {missing:,} of {listed['keys']:,} keys not listed ({listed['cached']:,} cached): "
                f"of so many keys, only {which} that this run computed are; select others with --partition, "
                "or read all of them with barca.scan\n",
            )


def note_selection(document: Mapping[str, Any]) -> None:
    """Say on stderr which nodes a selection leaves out."""
    skipped = (document.get("partition_selection") or {}).get("skipped_nodes") or ()
    if skipped:
        names = ", ".join(safe(node["id"].rpartition(":")[2]) for node in skipped)
        what = "a fan-in that reads every key" if len(skipped) == 1 else "fan-ins that read every key"
        write(
            sys.stderr,
            f"note: --partition skips {what}: {names}. Run without --partition to update "
            f"{'it' if len(skipped) == 1 else 'them'}.\n",
        )


def note_skipped(document: Mapping[str, Any]) -> None:
    """Say on stderr how many keys and whole nodes did not run because something they read has no result."""
    if skipped := document.get("steps_skipped"):
        write(sys.stderr, f"note: {plural(skipped, 'downstream step')} skipped\n")


def note_failed(document: Mapping[str, Any]) -> None:
    """Say on stderr how many keys failed of nodes whose failures were told in part only."""
    from barca.exec.journal import SHOWN_FAILURES

    for step in document.get("steps") or ():
        failed = (step.get("partitions") or {}).get("failed") or 0
        if failed > SHOWN_FAILURES:
            write(sys.stderr, f"note: {plural(failed, 'key')} of {safe(step['id'])} failed\n")
