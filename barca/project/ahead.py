"""Reading ahead: what planning asks for once a source has answered is read while the source runs."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Generic, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from concurrent.futures import Future

    from barca._typing import NodeId

T = TypeVar("T")


class Ahead(Generic[T]):
    """Reads by the source whose answer they are for, each made once at most."""

    def __init__(self) -> None:
        self._noted: dict[NodeId, Callable[[], T]] = {}
        self._begun: dict[NodeId, Future[T]] = {}

    def add(self, reads: Mapping[NodeId, Callable[[], T]]) -> None:
        """Note reads that will be wanted."""
        self._noted.update(reads)

    def begin(self) -> None:
        """Begin what was noted since, one after the other, beside whatever is done meanwhile."""
        if self._noted:
            reader = ThreadPoolExecutor(1, "barca-ahead")
            self._begun.update({source: reader.submit(read) for source, read in self._noted.items()})
            reader.shutdown(wait=False)
            self._noted.clear()

    def take(self, source: NodeId) -> T | None:
        """What is read for a source; `None` where nothing was noted, or it was taken.

        Raises:
            Exception: What reading raises.
        """
        if source in self._begun:
            return self._begun.pop(source).result()
        return self._noted.pop(source)() if source in self._noted else None
