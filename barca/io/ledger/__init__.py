"""The ledger: Delta tables of what was computed, under `.barca/ledger`.

`log` looks after the log files, `commits` adds them up and makes new ones, `tables` opens tables and writes
data files, `reader` and `writer` are the two sides of the port, `replacing` changes what is there, `upkeep`
keeps it small, `repairing` mends it. deltalake is imported only for what `commits` leaves to it: most runs do
not pay for it.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

from barca.errors import UsageError
from barca.io.ledger.reader import DeltaReader
from barca.io.ledger.repairing import repair
from barca.io.ledger.replacing import revise
from barca.io.ledger.upkeep import maintain, vacuum
from barca.io.ledger.writer import DeltaWriter
from barca.io.locks import claim
from barca.io.notes import outdate

if TYPE_CHECKING:
    from contextlib import AbstractContextManager
    from datetime import datetime

    import polars as pl

    from barca._typing import NodeId

__all__ = ["DeltaLedger", "repair"]


class DeltaLedger:
    """A `Ledger` in a local directory. Making one, and reading, creates no files.

    Attributes:
        root: The directory; each table of `schemas.LEDGER_TABLES` is a directory in it.

    Raises:
        UsageError: The directory's path has a percent code, which delta-rs would take for a character.
    """

    def __init__(self, root: Path) -> None:
        self.root = Path(root)
        code = re.search("%[0-9A-Fa-f]{2}", str(self.root.absolute()))
        if code:
            raise UsageError(
                f"no ledger can be kept in `{self.root}`: delta-rs takes `{code[0]}` for another character",
                code="ledger_directory",
                remediation="move the project to a directory without `%` and two digits in its path",
                file=str(self.root),
            )

    def __repr__(self) -> str:
        return f"DeltaLedger({str(self.root)!r})"

    def reader(self) -> DeltaReader:
        """A reader pinned to the newest version of each table.

        Raises:
            LedgerError: A table's log is damaged; see `repair`.
        """
        return DeltaReader(self.root)

    def writer(self, run_id: str) -> DeltaWriter:
        """A writer whose appends are idempotent within the run."""
        return DeltaWriter(self.root, run_id)

    def maintain(self, budget_seconds: float) -> None:
        """Compact, checkpoint and vacuum where thresholds say so, for at most about so long.

        Raises:
            LedgerError: A table is damaged or cannot be written to.
        """
        maintain(self.root, budget_seconds)

    def vacuum(self, before: datetime) -> None:
        """Delete files that the newest version does without, replaced or never committed before then.

        Raises:
            LedgerError: A table is damaged.
        """
        vacuum(self.root, before)

    def claim(self, wait_seconds: float) -> AbstractContextManager[None]:
        """Keep others meanwhile from giving up results, and from pinning them; see `ports.Ledger.claim`.

        Raises:
            LedgerError: They took longer.
        """
        return claim(self.root, wait_seconds)

    def revise(self, node: NodeId, moved: pl.DataFrame, dropped: pl.DataFrame) -> bool:
        """Give up results of a node and name the new places of others; see `ports.Ledger.revise`.

        Raises:
            LedgerError: The table is damaged or cannot be written to.
        """
        if dropped.is_empty():
            return revise(self.root, node, moved, dropped)
        outdate(self.root, node)
        done = revise(self.root, node, moved, dropped)
        outdate(self.root, node)  # also for a run that has begun meanwhile
        return done
