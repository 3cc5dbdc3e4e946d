"""A planner in plain Python, to hold the real one against: dicts and recursion, no frames.

It knows the documented rules and nothing of `barca.plan`; only the scalar hash functions are shared.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import product
from typing import TypeAlias

from barca.hashing import FORMAT_VERSION, hash_fields, hash_text

Place: TypeAlias = tuple[str, str]
"""A node and a key of it."""

Fields: TypeAlias = list[tuple[str, str]]


@dataclass(frozen=True)
class Told:
    """What a node's declaration says.

    `inputs` is parameter to how it is read and what; `dimensions` the declared ones; `keys_from` the node
    whose keys it has.
    """

    inputs: dict[str, tuple[str, str]] = field(default_factory=dict)
    kind: str = "asset"
    dimensions: tuple[str, ...] = ()
    keys_from: str | None = None
    cutoff: bool = False
    env: tuple[str, ...] = ()


@dataclass
class World:
    """What a run finds: definition hashes, environment, keys and contents."""

    code: dict[str, str]
    environment: dict[str, str]
    declared: dict[str, tuple[str, ...]]  # dimension to its keys, for every node that declares it
    returned: dict[str, dict[str, str]]  # keyed source to what it returns: key to canonical JSON
    contents: dict[Place, str]  # of results that readers look at


@dataclass(frozen=True)
class Request:
    """What a run is asked for. `fail`: places that fail when they run."""

    targets: tuple[str, ...]
    selection: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    refresh: frozenset[str] = frozenset()
    refresh_all: bool = False
    cascade: bool = True
    fail: frozenset[Place] = frozenset()


def stored_key(values: dict[str, str]) -> str:
    escaped = {
        name: value.replace("%", "%25").replace("/", "%2F").replace("=", "%3D")
        for name, value in values.items()
    }
    return "/".join(f"{name}={escaped[name]}" for name in sorted(escaped))


class Oracle:
    """Nodes in topological order, and what has been stored so far: place and run hash to digest."""

    def __init__(self, nodes: dict[str, Told]) -> None:
        self.nodes = nodes
        self.stored: dict[tuple[str, str, str], str] = {}
        self.broken: set[tuple[str, str, str]] = set()

    def run(self, world: World, asked: Request) -> set[Place]:
        """What runs and succeeds now; it is stored afterwards."""
        return _Run(self, world, asked).go()


class _Run:
    def __init__(self, oracle: Oracle, world: World, asked: Request) -> None:
        self.nodes, self.stored, self.broken = oracle.nodes, oracle.stored, oracle.broken
        self.world, self.asked = world, asked
        self.keys: dict[str, dict[str, dict[str, str]]] = {}  # node to key to its values
        self.hashes: dict[Place, str | None] = {}  # without one: it reads the content of what failed
        self.stale: set[Place] = set()
        self.reached: set[Place] = set()  # by a refresh and its cascade
        self.round: dict[str, int] = {}  # a node is decided one round after what its hashes wait for

    def go(self) -> set[Place]:
        self.cone = self._cone()
        for name in self.cone:
            if not self._skipped(name):
                self._decide(name)
        running = self._needed()
        return self._store(running)

    def _cone(self) -> list[str]:
        wanted = set(self.asked.targets)
        for name in reversed(self.nodes):
            if name in wanted:
                wanted |= {source for _, source in self.nodes[name].inputs.values()}
                wanted |= {self.nodes[name].keys_from} - {None}
        return [name for name in self.nodes if name in wanted]

    def _skipped(self, name: str) -> bool:
        """Whether it would read every key of something of which only some are selected."""
        sources = self.nodes[name].inputs.values()
        narrowed = {
            source
            for mode, source in sources
            if mode == "collect" and set(self.nodes[source].dimensions) & set(self.asked.selection)
        }
        return bool(narrowed) or any(source not in self.keys for _, source in sources)

    # --- what is stale ------------------------------------------------------------------------------

    def _decide(self, name: str) -> None:
        told = self.nodes[name]
        self.keys[name] = self._keys_of(name)
        self.round[name] = max((self._known_after(one) for _, one in told.inputs.values()), default=0)
        named = name in self.asked.refresh or self.asked.refresh_all
        for key, values in self.keys[name].items():
            place = name, key
            parts = [self._part(p, *told.inputs[p], key, values) for p in sorted(told.inputs)]
            env: Fields = []
            for variable in sorted(told.env):
                value = self.world.environment.get(variable)
                env += [("e", variable), ("u", "") if value is None else ("v", value)]
            if None in parts:
                self.hashes[place] = None
                self.stale.add(place)
                continue
            own = [("b", FORMAT_VERSION), ("d", self.world.code[name]), ("k", key), *env]
            run_hash = hash_fields([*own, *(one for part in parts for one in part or [])])
            self.hashes[place] = run_hash
            if told.kind != "task" and (named or self._cascades(told, key)):
                self.reached.add(place)
            result = (*place, run_hash)
            if (
                told.kind != "asset"
                or place in self.reached
                or result not in self.stored.keys() - self.broken
            ):
                self.stale.add(place)

    def _keys_of(self, name: str) -> dict[str, dict[str, str]]:
        told = self.nodes[name]
        if told.keys_from is not None and self.nodes[told.keys_from].dimensions:
            return self.keys[told.keys_from]
        if told.keys_from is not None:
            axes = {told.dimensions[0]: tuple(self.world.returned[told.keys_from])}
        else:
            axes = {name: self.world.declared[name] for name in told.dimensions}
        chosen = self.asked.selection
        combinations = (dict(zip(axes, values, strict=True)) for values in product(*axes.values()))
        return {
            stored_key(values): values
            for values in combinations
            if all(value in chosen.get(name, (value,)) for name, value in values.items())
        }

    def _known_after(self, source: str) -> int:
        """The round in which a reader's hashes are known."""
        told = self.nodes[source]
        runs_first = told.cutoff and any(name == source for name, _ in self.stale)
        return self.round[source] + (told.kind == "sensor" or runs_first)

    def _cascades(self, told: Told, key: str) -> bool:
        """A refresh reaches what reads a refreshed key, unless its content decides."""
        if not self.asked.cascade or self.asked.refresh_all:
            return False
        for mode, source in told.inputs.values():
            read = {one for one in self.reached if one[0] == source and (mode != "same_key" or one[1] == key)}
            if read and not self.nodes[source].cutoff:
                return True
        return False

    def _part(
        self, parameter: str, mode: str, source: str, key: str, values: dict[str, str]
    ) -> Fields | None:
        head = [("p", parameter), ("m", mode)]
        if mode == "keyed":
            version = self.world.returned[source][next(iter(values.values()))]
            return [*head, ("i", self.world.code[source]), ("w", hash_text(version))]
        if mode == "same_key":
            identity = self._identity(source, key)
            return None if identity is None else [*head, *identity]
        known = {one: self._identity(source, one) for one in sorted(self.keys[source])}
        if None in known.values():
            return None
        text = "".join(
            "".join(f"{tag}{len(value.encode())}:{value}" for tag, value in [("k", one), *(identity or [])])
            for one, identity in known.items()
        )
        return [*head, ("c", hash_fields([("n", str(len(known))), ("c", text)]))]

    def _identity(self, source: str, key: str) -> Fields | None:
        run_hash = self.hashes[source, key]
        if run_hash is None:
            return None
        if not self.nodes[source].cutoff:
            return [("r", run_hash)]
        place = source, key
        digest = self.stored.get((*place, run_hash))
        if place in self.stale and place not in self.asked.fail:
            digest = self._digest(place)
        return None if digest is None else [("g", digest)]

    def _digest(self, place: Place) -> str:
        return hash_text(self.world.contents.get(place, f"content {self.hashes[place]}"))

    # --- what runs ----------------------------------------------------------------------------------

    def _needed(self) -> set[Place]:
        """Stale places that are wanted, or read by one that runs or is not decided yet."""
        whole = set(self.asked.targets) | self.asked.refresh
        some: set[Place] = set()
        running: set[Place] = set()
        for name in reversed(self.cone):
            if name not in self.keys:
                continue
            told = self.nodes[name]
            everything = name in whole or self.asked.refresh_all or told.kind == "sensor"
            mine = {place for place in self.stale if place[0] == name and (everything or place in some)}
            running |= mine
            for mode, source in told.inputs.values():
                if self.round[name] > self.round[source] or (mine and mode != "same_key"):
                    whole.add(source)
                some |= {(source, key) for _, key in mine}
        return running

    def _store(self, running: set[Place]) -> set[Place]:
        """What succeeds: nothing that fails, nor what reads it."""
        lost: set[Place] = set()
        for name in self.cone:
            for place in sorted(one for one in running if one[0] == name):
                read = {
                    one
                    for one in lost
                    for mode, source in self.nodes[name].inputs.values()
                    if one[0] == source and (mode != "same_key" or one[1] == place[1])
                }
                if place in self.asked.fail or self.hashes[place] is None or read:
                    lost.add(place)
        done = running - lost
        for place in done:
            result = (*place, str(self.hashes[place]))
            self.stored[result] = self._digest(place)
            self.broken.discard(result)
        return done
