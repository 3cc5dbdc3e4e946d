"""What a shell offers for a word that is being typed, read from files and the ledger; no user code is run.

Nothing here raises: where something cannot be read, nothing is offered.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, MutableMapping
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from barca.config import find_root, read_config

if TYPE_CHECKING:
    from barca.io.ledger.reader import DeltaReader

TOPICS: Final = Path(__file__).parent / "topics"
"""The pages of the manual."""

_MOST: Final = 200
"""At most so many values of a dimension are offered."""

_RECENT: Final = 20
"""At most so many runs are offered."""

_WORDS, _PLACE = "COMP_WORDS", "COMP_CWORD"


def join_words(environment: MutableMapping[str, str]) -> None:
    """Bash takes `=` for a word of its own: a word that begins after it is an empty one, not `=`."""
    words, place = environment.get(_WORDS, "").split(), environment.get(_PLACE, "")
    if place.isdigit() and len(words) == int(place) + 1 and words[-1] == "=":
        environment[_PLACE] = str(int(place) + 1)


def words(context: Any, incomplete: str) -> list[str]:
    """Targets, then project files; values of a dimension where bash has cut `shop=r1` in pieces."""
    before = _typed()
    if len(before) > 2 and before[-1] == "=" and before[-3] == "--partition":
        return _quietly(lambda: _values(before[-2], incomplete))
    typed = context.params.get("words") or ()
    return [*([] if typed else targets(context, incomplete)), *_quietly(lambda: _files(incomplete))]


def targets(_context: Any, incomplete: str) -> list[str]:
    """Names of nodes, after those that stand before a comma already."""
    return _quietly(lambda: _after_comma(_node_names(), incomplete))


def partitions(_context: Any, incomplete: str) -> list[str]:
    """`DIM=` for each dimension of which the ledger has keys, then its values."""
    name, equals, value = incomplete.partition("=")
    if not equals:
        return _quietly(lambda: [f"{dimension}=" for dimension in _dimensions()])
    return _quietly(lambda: [f"{name}={found}" for found in _values(name, value)])


def moments(_context: Any, _incomplete: str) -> list[str]:
    """Tags, then the newest runs."""
    return _quietly(_moments)


def runs(_context: Any, _incomplete: str) -> list[str]:
    """The newest runs."""
    return _quietly(lambda: _runs(_reader()))


def environments(_context: Any, _incomplete: str) -> list[str]:
    """Names of the environments of `barca.toml`."""
    return _quietly(lambda: list(read_config(find_root(Path.cwd())).environments))


def topics(_context: Any, _incomplete: str) -> list[str]:
    """Topics of the manual."""
    return sorted(path.stem for path in TOPICS.glob("*.md"))


def _quietly(offer: Callable[[], list[str]]) -> list[str]:
    with suppress(Exception):
        return offer()
    return []


def _typed() -> list[str]:
    """The words before the one that is being typed, as bash tells them."""
    place = os.environ.get(_PLACE, "")
    return os.environ.get(_WORDS, "").split()[: int(place)] if place.isdigit() else []


def _after_comma(names: list[str], incomplete: str) -> list[str]:
    before, comma, _ = incomplete.rpartition(",")
    taken = set(before.split(","))
    return [f"{before}{comma}{name}" for name in names if name not in taken]


def _node_names() -> list[str]:
    """Names of the nodes that the text of the project's files declares; ids where files share a name."""
    from barca.discovery.files import find_files
    from barca.discovery.names import declared_nodes

    root = find_root(Path.cwd())
    ids = [
        node_id
        for file in find_files(root)
        for node_id in declared_nodes(file.relative_to(root).as_posix(), file.read_bytes())
    ]
    short = Counter(node_id.rpartition(":")[2] for node_id in ids)
    return [name if short[name := node_id.rpartition(":")[2]] == 1 else node_id for node_id in ids]


def _files(incomplete: str) -> list[str]:
    """Python files and directories that begin so."""
    folder, slash, name = incomplete.rpartition("/")
    return [
        f"{folder}{slash}{entry.name}{'/' if entry.is_dir() else ''}"
        for entry in sorted(os.scandir(folder + slash or "."), key=lambda entry: entry.name)
        if entry.name.startswith(name)
        and (name or not entry.name.startswith("."))
        and (entry.name.endswith(".py") or entry.is_dir())
    ]


def _reader() -> DeltaReader:
    from barca.io.ledger.reader import DeltaReader
    from barca.project.reading import STORE

    return DeltaReader(find_root(Path.cwd()) / STORE / "ledger")


def _moments() -> list[str]:
    from barca.io.tags import read_tags
    from barca.schemas import TAG

    reader = _reader()
    return [*read_tags(reader).get_column(TAG), *_runs(reader)]


def _runs(reader: DeltaReader) -> list[str]:
    from barca.schemas import RUN_ID

    known = reader.scan("runs").select(RUN_ID).collect(engine="in-memory").get_column(RUN_ID)
    return known.sort(descending=True).head(_RECENT).to_list()


def _key_parts() -> Any:
    """Distinct `dim=value` of the keys in the ledger, as a Series."""
    import polars as pl

    from barca.schemas import KEY

    rows = _reader().scan("materializations")
    parts = rows.select(pl.col(KEY).unique().str.split("/").explode().unique()).collect(engine="in-memory")
    return parts.to_series().drop_nulls()


def _dimensions() -> list[str]:
    found = _key_parts().str.split("=").list.first().unique().sort()
    return [name for name in found if name]


def _values(dimension: str, incomplete: str) -> list[str]:
    """Values of a dimension, after those that stand before a comma already."""
    from barca.partitions import decode_value, encode_value

    before, comma, begun = incomplete.rpartition(",")
    parts = _key_parts()
    found = parts.filter(parts.str.starts_with(f"{dimension}={encode_value(begun)}")).sort().head(_MOST)
    values = [decode_value(part.partition("=")[2]) for part in found]
    taken = set(before.split(","))
    return [f"{before}{comma}{value}" for value in values if value not in taken]
