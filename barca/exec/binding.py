"""What the parameters of a call receive, read from the store as annotations ask for it.

Everything is read once per work, never once per key. Values are shared between the calls of a work: a step
must not change its inputs in place.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final
from weakref import WeakKeyDictionary

import polars as pl

from barca.errors import FragmentError, InputError
from barca.exec.fitting import Telling, fit_all, fitted, of_parameter, require_dict, require_list, unfit
from barca.io.annotations import list_item, mapping_value, parameter_annotations, table_form
from barca.io.fragments import read_keyed, scan_fragments
from barca.io.keyed import ROW, keyed_by, read_keyed_rows, read_keyed_values
from barca.io.values import form_table, read_table, read_value, read_values
from barca.lookup import lookup_sorted
from barca.partitions import display_keys, display_text
from barca.schemas import KEY, PATH, ROWS, VALUE, dimension

if TYPE_CHECKING:
    from collections.abc import Mapping

    from barca.model import Definition, InputBinding, Work
    from barca.ports import PackStore


@dataclass(slots=True)
class EachInputs:
    """Inputs of one-key calls.

    Attributes:
        shared: Parameter to the value that every call receives.
        columns: Parameter to the values of the calls, in the order of the work's keys.
        failures: Keys whose input cannot be read, with the error.
    """

    shared: dict[str, Any] = field(default_factory=dict)
    columns: dict[str, list[Any]] = field(default_factory=dict)
    failures: dict[str, InputError | FragmentError] = field(default_factory=dict)


def bind_each(work: Work, definition: Definition[..., Any], store: PackStore) -> EachInputs:
    """Inputs of the one-key calls of a work.

    Raises:
        InputError: An input that every call receives cannot be given as annotated.
        FragmentError: A pack of such an input is missing, unreadable, or another one.
    """
    annotations = parameter_annotations(definition.function)
    inputs = EachInputs()
    for name in work.dimensions:
        inputs.columns[name] = work.keys.get_column(dimension(name)).to_list()
    for binding in work.inputs:
        annotation = annotations.get(binding.parameter)
        with Telling(work, binding, annotation):
            if binding.mode == "same_key":
                values = _own_values(work, binding, annotation, store, inputs)
            elif binding.mode == "value":
                values = _each_own_value(work, binding, annotation, store)
            else:
                inputs.shared[binding.parameter] = _shared(binding, annotation, store)
                continue
            inputs.columns[binding.parameter] = _fitting(work, binding, annotation, values, inputs)
    return inputs


def bind_batch(work: Work, definition: Definition[..., Any], store: PackStore) -> dict[str, Any]:
    """Arguments of a batched call.

    Raises:
        InputError: An input cannot be given as annotated.
        FragmentError: A pack is missing, unreadable, or another one.
    """
    annotations = parameter_annotations(definition.function)
    arguments: dict[str, Any] = {
        name: work.keys.get_column(dimension(name)).to_list() for name in work.dimensions
    }
    for binding in work.inputs:
        annotation = annotations.get(binding.parameter)
        with Telling(work, binding, annotation):
            if binding.mode == "same_key":
                given = _own_table_or_dict(work, binding, annotation, store, arguments)
            elif binding.mode == "value":
                given = _values_table_or_dict(work, binding, annotation, store, arguments)
            else:
                given = _shared(binding, annotation, store)
        arguments[binding.parameter] = given
    return arguments


def _names_of_keys(work: Work, arguments: Mapping[str, Any]) -> list[str]:
    """What stands for each key of a batched call in its dicts: the raw value, or display text of several.

    Args:
        work: The call.
        arguments: Of the function, the lists of raw values among them: the texts in those are found in dicts
            sooner than equal ones.
    """
    if len(work.dimensions) == 1:
        names: list[str] = arguments[work.dimensions[0]]
        return names
    return display_keys(work.keys.get_column(KEY))


# --- inputs of every call ---------------------------------------------------------------------------


def _shared(binding: InputBinding, annotation: Any, store: PackStore) -> Any:
    if binding.mode == "whole":
        value = read_value(store, binding.fragments, annotation, binding.dimensions)
        return fit_all(binding, annotation, [value], [""])[0]
    form = table_form(annotation)
    if form is not None and binding.template is not None:
        return form_table(scan_fragments(store, binding.template, binding.dimensions).head(0), form)
    if form is not None:
        return read_table(store, binding.fragments, annotation, binding.dimensions)
    require_list(annotation)
    _, item = list_item(annotation)
    values = read_values(store, binding.fragments, item, binding.dimensions)
    return fit_all(binding, item, list(values.values()), list(values), "list[T]")


# --- the same key of a partitioned node -------------------------------------------------------------


def _fitting(
    work: Work, binding: InputBinding, annotation: Any, values: list[Any], inputs: EachInputs
) -> list[Any]:
    """Each key's value as annotated; keys whose value cannot be given so are noted as failures."""
    wrong = unfit(annotation, values)
    keys = work.keys.get_column(KEY).to_list() if wrong else ()
    for place, key in enumerate(keys):
        if type(values[place]) in wrong:
            try:
                values[place] = fitted(binding, annotation, values[place], key)
            except InputError as error:
                inputs.failures.setdefault(key, of_parameter(error, work, binding, annotation))
    return values


def _own_values(
    work: Work, binding: InputBinding, annotation: Any, store: PackStore, inputs: EachInputs
) -> list[Any]:
    """Each key's value; keys whose pack cannot be read are noted as failures and get `None`."""
    fragments, missing = _own_fragments(work, binding)
    for key in missing:
        inputs.failures.setdefault(key, _missing(work, binding, key))
    try:
        values = read_values(store, fragments, annotation, binding.dimensions)
    except (FragmentError, InputError):
        values = dict[str, Any]()
        for (path,), part in fragments.group_by(PATH, maintain_order=True):
            try:
                with Telling(work, binding, annotation):
                    values |= read_values(store, part, annotation, binding.dimensions)
            except (FragmentError, InputError) as error:
                for key in part.get_column(KEY):
                    inputs.failures.setdefault(key, _of_key(error, binding, key, str(path)))
    return [values.get(key) for key in work.keys.get_column(KEY)]


def _of_key(
    error: FragmentError | InputError, binding: InputBinding, key: str, path: str
) -> FragmentError | InputError:
    """The error of a pack, said for a key that is in it."""
    return type(error)(
        f"`{display_text(key)}` of the input `{binding.source}`: {error.message}",
        code=error.code,
        remediation=error.remediation,
        node=binding.source,
        key=display_text(key),
        file=path,
    )


def _own_table_or_dict(
    work: Work, binding: InputBinding, annotation: Any, store: PackStore, arguments: Mapping[str, Any]
) -> Any:
    fragments, missing = _own_fragments(work, binding)
    if missing:
        raise _missing(work, binding, missing[0])
    mapping, item = mapping_value(annotation)
    if not mapping and table_form(annotation) is not None:
        return read_table(store, fragments, annotation, binding.dimensions)
    require_dict(annotation)
    values = read_values(store, fragments, item, binding.dimensions)
    fitting = fit_all(binding, item, list(values.values()), list(values), "dict[str, T]")
    return dict(zip(_names_of_keys(work, arguments), fitting, strict=True))


def _own_fragments(work: Work, binding: InputBinding) -> tuple[pl.DataFrame, list[str]]:
    """The fragments of the work's keys in their order, and the keys that have none."""
    fragments = binding.fragments
    if not fragments.get_column(KEY).equals(work.keys.get_column(KEY)):
        fragments = work.keys.select(KEY).join(fragments, on=KEY, how="left", maintain_order="left")
    if not fragments.get_column(PATH).null_count():
        return fragments, []
    there = pl.col(PATH).is_not_null()
    return fragments.filter(there), fragments.filter(~there).get_column(KEY).to_list()


def _missing(work: Work, binding: InputBinding, key: str) -> InputError:
    return InputError(
        f"the input `{binding.source}` has no result for `{display_text(key)}`",
        code="input_missing",
        node=work.node,
        key=display_text(key),
        remediation=f"give `{binding.source}` and `{work.node}` the same keys",
    )


# --- the values of a keyed source -------------------------------------------------------------------


def _keyed_values(work: Work, binding: InputBinding, store: PackStore) -> pl.Series:
    """The JSON text of each key of the work.

    Raises:
        InputError: The source has no value for a key.
    """
    (name,) = work.dimensions
    own = work.keys.select(KEY, pl.col(dimension(name)).alias(_RAW))
    pairs = _read_keyed(store, binding.fragments, own.get_column(_RAW))
    own = lookup_sorted(own, pairs.select(pl.col(KEY).alias(_RAW), VALUE), [VALUE], on=_RAW)
    values = own.get_column(VALUE)
    if values.null_count():
        key = own.filter(pl.col(VALUE).is_null()).item(0, KEY)
        raise InputError(
            f"`{binding.source}` returned no value for `{display_text(key)}`",
            code="input_missing",
            node=work.node,
            key=display_text(key),
            remediation="return a dict of key to value, or leave the parameter out",
        )
    return values


def _each_own_value(work: Work, binding: InputBinding, annotation: Any, store: PackStore) -> list[Any]:
    """Each key's value; its row of a table that the source returned, where a table is asked for."""
    form = table_form(annotation)
    rows = _own_rows(work, binding, store) if form is not None else None
    if form is None or rows is None:
        return _parsed(_keyed_values(work, binding, store))
    return [form_table(rows.slice(position, 1), form) for position in range(rows.height)]


def _own_rows(work: Work, binding: InputBinding, store: PackStore) -> pl.DataFrame | None:
    """The rows of the work's keys in a table that the source returned; `None` when it returned none."""
    (name,) = work.dimensions
    wanted = work.keys.get_column(dimension(name))
    rows = read_keyed_rows(store, binding.fragments, wanted if _are_few(wanted, binding.fragments) else None)
    if rows is None:
        return None
    own = wanted.alias(KEY).to_frame().join(rows, on=KEY, how="left", maintain_order="left")
    table = own.get_column(ROW).struct.unnest()
    (path,) = binding.fragments.get_column(PATH)
    column = keyed_by(store, path) or table.columns[0]
    # keys are texts wherever a function sees them, so the column that gave them is text too
    return table.with_columns(own.get_column(KEY).alias(column)).rename({column: name})


_RAW = "raw"

_FEW: Final = 8
"""Keys are few where the source has more than so many times theirs."""

_last_keyed: WeakKeyDictionary[PackStore, tuple[dict[str, str], pl.DataFrame | None]] = WeakKeyDictionary()


def _read_keyed(store: PackStore, fragment: pl.DataFrame, wanted: pl.Series) -> pl.DataFrame:
    """Keys and values of a keyed source, among them the wanted ones, sorted by key.

    For few keys only what lies around them is read. But the calls of a node all read the same source: who
    asks a second time reads it whole, and that is kept.
    """
    stamps = store.stamps(fragment.get_column(PATH))
    known, kept = _last_keyed.get(store, ({}, None))
    again = bool(stamps) and known == stamps
    if again and kept is not None:
        return kept
    if not again and _are_few(wanted, fragment):
        _last_keyed[store] = stamps, None
        return read_keyed_values(store, fragment, wanted)
    pairs = read_keyed(store, fragment)
    _last_keyed[store] = stamps, pairs
    return pairs


def _are_few(wanted: pl.Series, fragment: pl.DataFrame) -> bool:
    """Whether a source has many times so many keys."""
    return wanted.len() * _FEW < int(fragment.get_column(ROWS).item())


def _parsed(texts: pl.Series) -> list[Any]:
    values: list[Any] = json.loads(f"[{','.join(texts.to_list())}]")
    return values


def _values_table_or_dict(
    work: Work, binding: InputBinding, annotation: Any, store: PackStore, arguments: Mapping[str, Any]
) -> Any:
    mapping, item = mapping_value(annotation)
    form = table_form(annotation)
    rows = None if mapping or form is None else _own_rows(work, binding, store)
    if form is not None and rows is not None:
        return form_table(rows.select(*work.dimensions, pl.exclude(work.dimensions)), form)
    values = _parsed(_keyed_values(work, binding, store))
    if mapping or form is None:
        require_dict(annotation)
        fitting = fit_all(binding, item, values, work.keys.get_column(KEY), "dict[str, T]")
        return dict(zip(_names_of_keys(work, arguments), fitting, strict=True))
    keys = work.keys.select(pl.col(dimension(name)).alias(name) for name in work.dimensions)
    column = pl.Series(VALUE, values, strict=False)
    return form_table(keys.hstack([column]), form)
