"""Column names and schemas of every frame that crosses a boundary, documented once.

A key is identified by `key: String`, its Hive form: dimensions sorted by name, `dim=value` joined by `/`,
values percent-encoded, `""` for the empty key. It is injective and sorts stably. Raw values of a
dimension stand in a column named by `dimension()`, which no other column can be called.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import polars as pl

if TYPE_CHECKING:
    from collections.abc import Iterable

# --- columns ----------------------------------------------------------------------------------------

NODE: Final = "node"
KEY: Final = "key"
ORDINAL: Final = "ordinal"
RUN_HASH: Final = "run_hash"
VALUE: Final = "value"
STATE: Final = "state"
REASON: Final = "reason"
CHANGED: Final = "changed"
NEEDED: Final = "needed"
KEYS_COUNT: Final = "keys"
FIRST_KEYS: Final = "first"
CALL: Final = "call"
FORMAT: Final = "format"
PATH: Final = "path"
ROW_OFFSET: Final = "row_offset"
ROWS: Final = "rows"
SIZE_BYTES: Final = "size_bytes"
DIGEST: Final = "digest"
STATUS: Final = "status"
ERROR_TYPE: Final = "error_type"
ERROR_MESSAGE: Final = "error_message"
TRACEBACK: Final = "traceback"
ATTEMPTS: Final = "attempts"
ELAPSED_SECONDS: Final = "elapsed_seconds"
DEFINITION_HASH: Final = "definition_hash"
INPUT_HASHES: Final = "input_hashes"
ENV_HASH: Final = "env_hash"
RUN_ID: Final = "run_id"
CREATED_AT: Final = "created_at"
MAX_RSS_BYTES: Final = "max_rss_bytes"
PARENT: Final = "parent"
SINK: Final = "sink"
MACHINE: Final = "machine"
WAS: Final = "was"
WAS_OFFSET: Final = "was_offset"
EVENT: Final = "event"
RESULT_AT: Final = "result_at"
TAG: Final = "tag"
AT: Final = "at"


def dimension(name: str) -> str:
    """The column that holds a dimension's raw values (String) in planning frames."""
    return f"dim:{name}"


def dimensions(names: Iterable[str]) -> list[str]:
    """`dimension` of each name."""
    return [dimension(name) for name in names]


# --- closed sets ------------------------------------------------------------------------------------

STATES: Final = ("cached", "stale", "blocked")
"""State of a key. `cached`: a stored result has its run hash. `stale`: it must run. `blocked`: the same
key of an input failed in this run."""

REASONS: Final = (
    "sensor",
    "task",
    "always",
    "not_materialized",
    "refresh",
    "refresh_cascade",
    "refresh_all",
    "artifact_missing",
    "upstream_key_failed",
    "upstream_failed",
    "partition_selection",
    "partitions_unknown",
    "sensor_output_unknown",
    "cutoff_pending",
)
"""Why a key is in its state; null for cached keys."""

FORMATS: Final = ("table", "json", "pickle", "keyed")
OUTCOME_STATUSES: Final = ("success", "failed")

STATE_DTYPE: Final[Any] = pl.Enum(STATES)
REASON_DTYPE: Final[Any] = pl.Enum(REASONS)

_HASHES: Final[Any] = pl.List(pl.Int64)
_NAMES: Final[Any] = pl.List(pl.String)
TIMESTAMP: Final[Any] = pl.Datetime("us", "UTC")

# --- planning frames --------------------------------------------------------------------------------

KEYS: Final = pl.Schema({KEY: pl.String, ORDINAL: pl.Int64})
"""Keys of a node, plus one `dim:` String column per dimension. `ordinal`: declared order, from 0."""

WANTED: Final = pl.Schema({**KEYS, RUN_HASH: pl.String, INPUT_HASHES: _HASHES})
"""`KEYS` with the identity of each key's computation. `input_hashes`: `hashing.short_hash` of each
input's part, sorted by parameter; only for naming what changed."""

DECISION: Final = pl.Schema({**WANTED, STATE: STATE_DTYPE, REASON: REASON_DTYPE, NEEDED: pl.Boolean})
"""`WANTED` with what is to be done, and the columns of a stored fragment for cached keys. `needed`: whether
the target, or a stale key that reads it, needs it; only keys both stale and needed run."""

CHANGES: Final = pl.Schema({KEY: pl.String, CHANGED: _NAMES})
"""For stale keys that ran before, what differs in their run hash: `value ID`, `input ID`, `function`,
`helper FILE:NAME`, `env NAME`, ..."""

WHYS: Final = pl.Schema({REASON: REASON_DTYPE, CHANGED: _NAMES, KEYS_COUNT: pl.Int64, FIRST_KEYS: _NAMES})
"""The keys of a node that run, grouped by why; the largest group first. `changed`: null for keys that never
ran. `first`: the first few keys of the group in lexical order."""

CALLS: Final = pl.Schema({CALL: pl.String, KEY: pl.String, ORDINAL: pl.Int64})
"""Keys that run, with the call each belongs to, in call order."""

KEYED: Final = pl.Schema({KEY: pl.String, VALUE: pl.String, ORDINAL: pl.Int64})
"""What a keyed source returned. `key`: the raw key as a string. `value`: canonical JSON of its value, null
for a list source. `ordinal`: order returned."""

# --- calls and fragments ----------------------------------------------------------------------------

WORK_KEYS: Final = pl.Schema({KEY: pl.String, ORDINAL: pl.Int64, RUN_HASH: pl.String, CALL: pl.String})
"""Keys of a `Work`, plus `dim:` columns. `call`: the id of each key's call."""

FRAGMENTS: Final = pl.Schema(
    {
        KEY: pl.String,
        RUN_HASH: pl.String,
        FORMAT: pl.String,
        PATH: pl.String,
        ROW_OFFSET: pl.Int64,
        ROWS: pl.Int64,
        SIZE_BYTES: pl.Int64,
        DIGEST: pl.String,
    }
)
"""One row per stored key. `path`: of the pack, relative to the store. `row_offset`, `rows`: its row range
there. `size_bytes`: the fragment's share of the pack's bytes (its rows' part of the file size). `digest`:
identity of the content."""

MOVED: Final = pl.Schema({**FRAGMENTS, WAS: pl.String(), WAS_OFFSET: pl.Int64()})
"""Fragments at a new place. `was`, `was_offset`: path of the pack they lay in, and the row offset there."""

PUBLISHED: Final = pl.Schema({SINK: pl.String, KEY: pl.String, RUN_HASH: pl.String})
"""What was written to sinks: the path as declared, the key, and the run hash of what it holds there now."""

OUTCOMES: Final = pl.Schema(
    {
        KEY: pl.String,
        STATUS: pl.String,
        ERROR_TYPE: pl.String,
        ERROR_MESSAGE: pl.String,
        TRACEBACK: pl.String,
        ATTEMPTS: pl.Int64,
        ELAPSED_SECONDS: pl.Float64,
    }
)
"""How each key of a call ended. `status`: one of `OUTCOME_STATUSES`. `traceback`: the user's frames only.
`elapsed_seconds`: of the call that computed the key."""

# --- ledger tables ----------------------------------------------------------------------------------

MATERIALIZATIONS: Final = pl.Schema(
    {
        NODE: pl.String,
        **FRAGMENTS,
        STATUS: pl.String,
        DEFINITION_HASH: pl.String,
        ENV_HASH: pl.String,
        INPUT_HASHES: _HASHES,
        RUN_ID: pl.String,
        CALL: pl.String,
        ATTEMPTS: pl.Int64,
        ELAPSED_SECONDS: pl.Float64,
        ERROR_TYPE: pl.String,
        ERROR_MESSAGE: pl.String,
        TRACEBACK: pl.String,
        CREATED_AT: TIMESTAMP,
    }
)
"""One row per key and attempt chain that ended, successes and failures; partitioned by `node`. Failures
have null fragment columns besides `key` and `run_hash`."""

RUNS: Final = pl.Schema(
    {
        RUN_ID: pl.String,
        "command": pl.String,
        "target": pl.String,
        STATUS: pl.String,
        "steps_executed": pl.Int64,
        "steps_cached": pl.Int64,
        ELAPSED_SECONDS: pl.Float64,
        "started_at": TIMESTAMP,
        "finished_at": TIMESTAMP,
        "triggered_by": pl.String,
        "error": pl.String,
        "failed_node": pl.String,
    }
)
"""One row per run that ended. A run still going, or killed, has a marker file instead; see the docs."""

CALL_RECORDS: Final = pl.Schema(
    {
        RUN_ID: pl.String,
        CALL: pl.String,
        PARENT: pl.String,
        NODE: pl.String,
        "keys": pl.Int64,
        STATUS: pl.String,
        ATTEMPTS: pl.Int64,
        ELAPSED_SECONDS: pl.Float64,
        MAX_RSS_BYTES: pl.Int64,
        "engine": pl.String,
        "polars_version": pl.String,
        "started_at": TIMESTAMP,
    }
)
"""One row per batched call, and per work of one-key calls that ran together. `parent`: the call that failed
before, of whose keys this one is; null for a first call. `status`: `success`, `failed`, or `exhausted` where
the call ran out of memory or time. `max_rss_bytes`: the highest resident memory of the worker while the call
ran."""

EXHAUSTED: Final = "exhausted"

DEFINITIONS: Final = pl.Schema(
    {
        NODE: pl.String,
        DEFINITION_HASH: pl.String,
        "components": pl.String,
        "inputs": pl.String,
        "source": pl.String,
        CREATED_AT: TIMESTAMP,
    }
)
"""One row per definition that ran. `components`: JSON object, component to its hash. `inputs`: JSON array
of the names of the entries of `input_hashes`. `source`: normalised source."""

PUBLICATIONS: Final = pl.Schema(
    {
        NODE: pl.String,
        SINK: pl.String,
        KEY: pl.String,
        RUN_HASH: pl.String,
        RUN_ID: pl.String,
        MACHINE: pl.String,
        CREATED_AT: TIMESTAMP,
    }
)
"""Which run hash each sink last published, per key; the last row counts. `sink`: the path as declared.
`run_hash`: null while it is being written, so that a killed run does not leave a wrong record; empty once
the key was deleted there. `machine`: name of the machine that wrote."""

HOLDING_EVENTS: Final = ("returned", "left", "collected")

HOLDINGS: Final = pl.Schema(
    {
        NODE: pl.String,
        KEY: pl.String,
        EVENT: pl.String,
        RUN_HASH: pl.String,
        RUN_ID: pl.String,
        RESULT_AT: TIMESTAMP,
        CREATED_AT: TIMESTAMP,
    }
)
"""What of a key's past no result tells. `event`: `returned`, a run found that an earlier result, of
`run_hash`, is up to date again; `left`, a run found that it is no key any more, `run_hash` is null;
`collected`, `barca gc` gave up the result of `run_hash` that run `run_id` had made at `result_at`.
`created_at`: when that was."""

TAGS: Final = pl.Schema({TAG: pl.String, AT: TIMESTAMP, RUN_ID: pl.String, CREATED_AT: TIMESTAMP})
"""Names for moments; the last row of a tag counts. `at`: the moment, null once the tag was deleted. `run_id`:
the run after which it is, if it was named by one."""

LEDGER_TABLES: Final = {
    "materializations": MATERIALIZATIONS,
    "runs": RUNS,
    "calls": CALL_RECORDS,
    "definitions": DEFINITIONS,
    "publications": PUBLICATIONS,
    "holdings": HOLDINGS,
    "tags": TAGS,
}

LOGS: Final = pl.Schema(
    {
        NODE: pl.String,
        CALL: pl.String,
        KEY: pl.String,
        "stream": pl.String,
        "ts": TIMESTAMP,
        "line": pl.String,
    }
)
"""Lines that steps printed. `key`: of a one-key call, null for a batched one, whose keys the ledger knows."""


_EMPTY: Final[dict[int, tuple[pl.Schema, pl.DataFrame]]] = {}


def empty(schema: pl.Schema) -> pl.DataFrame:
    """A frame of a schema of this module with no rows; made once, since it is asked for all the time."""
    if id(schema) not in _EMPTY:
        _EMPTY[id(schema)] = schema, pl.DataFrame(schema=schema)  # the schema too: its id stays its own
    return _EMPTY[id(schema)][1].clone()
