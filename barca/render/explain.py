"""Why a step runs, or not, as one sentence: the same words in tables, HTML and logs."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from barca.errors import plural
from barca.render.text import first_line, listing, safe, words

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

REASON_TEXTS = {
    "sensor": "sensors always run",
    "task": "tasks always run",
    "always": "always runs (freshness)",
    "not_materialized": "no result yet",
    "refresh": "refresh asked for",
    "refresh_cascade": "below a refreshed node",
    "refresh_all": "refresh of everything asked for",
    "artifact_missing": "its stored result is gone",
    "upstream_key_failed": "the same key of an input failed",
    "upstream_failed": "an input failed",
    "partition_selection": "reads every key of a narrowed node",
    "partitions_unknown": "keys are known once their source ran",
    "sensor_output_unknown": "known once its sensor ran",
    "cutoff_pending": "known once its input ran (cutoff)",
}
"""Reasons of the closed set in words; a reason that is not here shows its own name."""

_SHOWN_KEYS = 5
_EXAMPLES = 3


def reason_text(reason: str | None) -> str:
    """A reason of the closed set in words; an empty text for `None`."""
    return REASON_TEXTS.get(reason or "") or words(reason)


def changed_text(changed: Sequence[str]) -> str:
    """What differs in a run hash: `value pipeline.py:versions changed`."""
    return f"{', '.join(safe(part) for part in changed)} changed" if changed else ""


def because(changed: Sequence[str] | None, reason: str | None) -> str:
    """Why one key runs: what changed when that is known, else its reason."""
    return changed_text(changed or ()) or reason_text(reason)


def grouping_text(batch: Mapping[str, Any] | None) -> str:
    """How keys are grouped: `12 keys in 2 calls (batch=10)`; an empty text when nothing is batched."""
    if not batch:
        return ""
    grouped = f"{plural(batch.get('keys', 0), 'key')} in {plural(batch.get('calls', 0), 'call')}"
    if not batch.get("grouping"):
        return grouped
    size = f", {plural(batch['size'], 'key')} a call: {safe(batch['why'])}" if batch.get("why") else ""
    return f"{grouped} ({safe(batch['grouping'])}{size})"


def key_groups(partitions: Mapping[str, Any], reason: str | None) -> list[tuple[str, list[str]]]:
    """Previewed keys that will run, grouped by why: `(why, display keys)`, first seen first."""
    changed = partitions.get("changed") or {}
    groups: dict[str, list[str]] = {}
    for key in partitions.get("will_run_keys") or ():
        groups.setdefault(because(changed.get(key), reason), []).append(key)
    return list(groups.items())


def keys_text(partitions: Mapping[str, Any], reason: str | None) -> str:
    """Which keys will run and why: `retailer=r1, retailer=r2 (value pipeline.py:versions changed)`."""
    total = partitions.get("will_run") or 0
    counted = partitions.get("reasons") or ()
    if counted:
        return "; ".join(_group_text(group, counted=total > _SHOWN_KEYS) for group in counted)
    groups = key_groups(partitions, reason)
    named = [key for _, keys in groups for key in keys]
    if total > len(named) or (len(groups) == 1 and total > _SHOWN_KEYS):
        why = groups[0][0] if len(groups) == 1 else reason_text(reason)
        several = f"{plural(total, 'key')} ({why})" if why else plural(total, "key")
        return f"{several}: {listing(named, total=total)}" if named else several
    return "; ".join(f"{listing(keys)} ({why})" if why else listing(keys) for why, keys in groups)


def _group_text(group: Mapping[str, Any], *, counted: bool) -> str:
    """`15,702 keys: helper util.py:clean changed (retailer=r1, retailer=r2, retailer=r3 and 15,699 more)`.

    Not counted: `retailer=r1, retailer=r2 (helper util.py:clean changed)`.
    """
    why, number = because(group["changed"], group["reason"]), group["keys"]
    if not counted:
        return f"{listing(group['first'])} ({why})"
    return f"{plural(number, 'key')}: {why} ({listing(group['first'][:_EXAMPLES], total=number)})"


def ran_why(step: Mapping[str, Any]) -> str:
    """Why the keys of a run's step ran, in few words: the one reason, or the largest groups by reason."""
    reason = step.get("reason")
    partitions = step.get("partitions") or {}
    if partitions.get("total") == 0:
        return "no keys"
    groups = partitions.get("reasons") or ()
    if len(groups) < 2:
        changed = groups[0]["changed"] if groups else step.get("changed")
        return _brief(because(changed if reason == "not_materialized" else None, reason))
    told = [
        f"{group['keys']:,}: {_brief(because(group['changed'], group['reason']))}"
        for group in groups[:_EXAMPLES]
    ]
    return "; ".join([*told, "..."] if len(groups) > _EXAMPLES else told)


def _brief(why: str) -> str:
    """A reason with names in place of ids: `value versions changed`."""
    return re.sub(r"(?:[^\s:]+\.(?:py|ipynb)|\bnotebook|<session>):", "", why)


def keys_by_reason(steps: Iterable[Mapping[str, Any]]) -> dict[str, int]:
    """How many keys of the steps run for each reason, in few words, the largest first."""
    counts: dict[str, int] = {}
    for step in steps:
        partitions = step.get("partitions") or {}
        own = {
            "changed": step.get("changed"),
            "reason": step.get("reason"),
            "keys": partitions.get("will_run") or 1,
        }
        for group in partitions.get("reasons") or [own]:
            why = _brief(because(group["changed"], group["reason"]))
            counts[why] = counts.get(why, 0) + group["keys"]
    return dict(sorted(counts.items(), key=lambda item: -item[1]))


def step_why(step: Mapping[str, Any], verb: str = "will run") -> str:
    """Why a step is in its state, with its keys when it has several.

    Args:
        step: Of a dry run or of a run.
        verb: What keys that are not cached do, or did.
    """
    partitions = step.get("partitions")
    detail = safe(step.get("detail") or "")
    if not partitions:
        return detail or because(step.get("changed"), step.get("reason"))
    total, cached = partitions.get("total"), partitions.get("cached") or 0
    if not partitions.get("will_run"):
        if step.get("reason") or total is None:
            return detail or reason_text(step.get("reason"))
        return f"{plural(total, 'key')} cached"
    known = f"{cached:,} of {plural(total, 'key')} cached" if total is not None else f"{cached:,} cached"
    keys = keys_text(partitions, step.get("reason"))
    grouping = grouping_text(step.get("batch"))
    colon = "" if keys[:1].isdigit() else ":"  # counted keys read on: `will run 15,702 keys: ...`
    return f"{known}; {verb}{colon} {keys}" + (f", {grouping}" if grouping else "")


def node_why(node: Mapping[str, Any]) -> str:
    """Why a node of an explanation runs or not, and what holds it up."""
    blocked = f"; {safe(node['blocked'])}" if node.get("blocked") else ""
    return (step_why(node) or "up to date") + blocked


def key_why(key: Mapping[str, Any]) -> str:
    """Why a key of an explanation runs or not, and how it failed the last time."""
    failed = f"; it failed: {safe(key['error'])}" if key.get("error") else ""
    return (because(key["changed"], key["reason"]) or "nothing changed") + failed


def keys_told(explained: Mapping[str, Any]) -> str:
    """`1,500 keys in all, 20 shown, those that run first`; an empty text where every key is told."""
    told = len(explained["keys"])
    total = (explained["nodes"][0].get("partitions") or {}).get("total") or 0
    if total <= told:
        return ""
    return f"{plural(total, 'key')} in all, {told} shown, those that run first; --partition selects others"


def status_why(node: Mapping[str, Any]) -> str:
    """Why a node of `status` is in its state; of an error of several lines the first."""
    cache = node.get("cache") or {}
    partitions = node.get("partitions") or {}
    if cache.get("detail"):
        return first_line(cache["detail"])
    missing = partitions.get("missing") or 0
    if not missing:
        return because(cache.get("changed"), cache.get("reason"))
    return keys_text(
        {
            "will_run": missing,
            "will_run_keys": partitions.get("missing_keys"),
            "changed": partitions.get("changed"),
            "reasons": partitions.get("reasons"),
        },
        cache.get("reason"),
    )


def merge_blocked(steps: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """Steps of a run, with the keys of one node that an input's failure blocked as one step."""
    groups: dict[tuple[str, bool], list[Mapping[str, Any]]] = {}
    for step in steps:
        blocked = step.get("reason") == "upstream_key_failed" and "[" in step["id"]
        name = step["id"].partition("[")[0] if blocked else step["id"]
        groups.setdefault((name, blocked), []).append(step)
    return [_merged(name, group) for (name, _), group in groups.items()]


def _merged(name: str, group: Sequence[Mapping[str, Any]]) -> Mapping[str, Any]:
    if len(group) == 1:
        return group[0]
    detail = f"{plural(len(group), 'key')}, the first {group[0].get('detail') or 'blocked'}"
    return {**group[0], "id": name, "detail": detail}
