"""`barca get` and `barca run`: compute, show the result, or show what would be computed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from barca.cli import options as opt
from barca.cli.arguments import (
    names,
    one_of,
    parse_batch,
    parse_partition,
    pick,
    seconds,
    several_of,
    split_positionals,
)
from barca.cli.notes import note_failed, note_moment, note_selection, note_skipped, note_unlisted
from barca.cli.output import (
    Mode,
    choose_mode,
    emit_json,
    emit_lines,
    emit_view,
    report,
    terminal_width,
)
from barca.cli.paths import path_lines
from barca.cli.session import listening, open_project, stdout_kept, workers_starting
from barca.errors import UsageError
from barca.records import Record, replace

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from barca.exec.pool import Workers
    from barca.project import Project
    from barca.project.lookback import Lookback
    from barca.project.results import Result
    from barca.render.progress import ProgressListener

RESULT_FIELDS = (
    "status", "run_id", "elapsed_seconds", "phases", "steps_executed", "steps_cached", "steps_skipped",
    "steps", "final_output", "targets", "warnings", "failed_node", "error", "partition_selection", "as_of",
)  # fmt: skip
RUN_HINT = "write `barca run TASK [FILES...]`; `barca list` shows the tasks, `barca get` computes assets"
PLAN_FIELDS = ("dry_run", "steps", "summary", "warnings", "partition_selection")


class Request(Record, kw_only=True):
    """One `get` or `run` as asked for.

    Attributes:
        targets: Names or ids; `None` for every asset and sensor.
        files: Project files and directories; empty for all.
        computing: Keyword arguments that `get`, `run` and `plan` share.
        mode: Form of the output.
        output: `path`, `value`, or `None` for the form's own.
        fields: Fields asked for, or `None` for all.
        executor: Executor asked for.
        env: Environment of `barca.toml` asked for.
    """

    targets: list[str] | None
    files: list[Path]
    computing: dict[str, Any]
    mode: Mode
    output: str | None
    fields: list[str] | None
    executor: str | None
    env: str | None

    @property
    def title(self) -> str:
        """The targets as people read them."""
        return ", ".join(self.targets) if self.targets else "every asset and sensor"


def get(
    words: opt.Words = None,
    partition: opt.Partition = None,
    batch: opt.Batch = None,
    refresh: opt.Refresh = None,
    no_cascade: opt.NoCascade = False,
    refresh_all: opt.RefreshAll = False,
    dry_run: opt.DryRun = False,
    env: opt.Env = None,
    as_json: opt.Json = False,
    pretty: opt.Pretty = False,
    output: opt.Output = None,
    fields: opt.Fields = None,
    executor: opt.ExecutorName = None,
    as_of: opt.AsOf = None,
    watch: Annotated[
        bool, typer.Option("--watch", help="Compute again whenever a file of the project changes.")
    ] = False,
    every: Annotated[
        str | None,
        typer.Option(
            "--every",
            metavar="SECONDS",
            help="With --watch: ask the sensors again so often, and compute what their answers change.",
            show_default=False,
        ),
    ] = None,
) -> int:
    """Compute what is stale of the targets and give their results, or with --as-of, those that they had."""
    if every and not watch:
        raise UsageError("--every goes with --watch", remediation="write --watch --every 60")
    if watch and dry_run:
        raise UsageError("a dry run is not watched", remediation="leave out --watch or --dry-run")
    targets, paths = split_positionals(words or ())
    request = Request(
        targets=targets,
        files=paths,
        computing=_computing(partition, batch, refresh, no_cascade=no_cascade, refresh_all=refresh_all),
        mode=choose_mode(as_json=as_json, pretty=pretty),
        output=_output(output, dry_run=dry_run),
        fields=_fields(fields, dry_run=dry_run),
        executor=executor and one_of("--executor", executor, opt.EXECUTORS),
        env=env,
    )
    if as_of is not None:
        return _look_back(request, as_of, dry_run=dry_run, watch=watch)
    if watch:
        return _watch(request, seconds("--every", every) if every else None)
    return _dry_run(request) if dry_run else _compute("get", request)


def run(
    words: opt.Words = None,
    partition: opt.Partition = None,
    batch: opt.Batch = None,
    refresh: opt.Refresh = None,
    no_cascade: opt.NoCascade = False,
    refresh_all: opt.RefreshAll = False,
    dry_run: opt.DryRun = False,
    env: opt.Env = None,
    as_json: opt.Json = False,
    pretty: opt.Pretty = False,
    output: opt.Output = None,
    fields: opt.Fields = None,
    executor: opt.ExecutorName = None,
) -> int:
    """Run a task, after what it reads."""
    targets, paths = split_positionals(words or ())
    if targets is None or len(targets) != 1:
        raise UsageError("run takes one task", code="missing_task", remediation=RUN_HINT)
    request = Request(
        targets=targets,
        files=paths,
        computing=_computing(partition, batch, refresh, no_cascade=no_cascade, refresh_all=refresh_all),
        mode=choose_mode(as_json=as_json, pretty=pretty),
        output=_output(output, dry_run=dry_run),
        fields=_fields(fields, dry_run=dry_run),
        executor=executor and one_of("--executor", executor, opt.EXECUTORS),
        env=env,
    )
    return _dry_run(request) if dry_run else _compute("run", request)


# --- what was asked for -----------------------------------------------------------------------------


def _computing(
    partition: Sequence[str] | None,
    batch: Sequence[str] | None,
    refresh: str | None,
    *,
    no_cascade: bool,
    refresh_all: bool,
) -> dict[str, Any]:
    refreshed = names(refresh)
    if refresh is not None and not refreshed:
        raise UsageError("--refresh names no node", remediation="write --refresh scored,report")
    return {
        "partition": parse_partition(partition or ()),
        "batch": parse_batch(batch or ()),
        "refresh": refreshed or None,
        "refresh_all": refresh_all,
        "cascade": not no_cascade,
    }


def _output(output: str | None, *, dry_run: bool) -> str | None:
    if output and dry_run:
        raise UsageError(
            "-o says what to print of a result, and a dry run has none",
            remediation="leave out -o or --dry-run",
        )
    return output and one_of("-o", output, opt.OUTPUTS)


def _fields(fields: str | None, *, dry_run: bool) -> list[str] | None:
    return several_of("--fields", fields, PLAN_FIELDS if dry_run else RESULT_FIELDS)


# --- computing --------------------------------------------------------------------------------------


def _dry_run(request: Request) -> int:
    with listening() as listener:
        project = open_project(request.files, env=request.env, listener=listener)
        plan = project.plan(request.targets, **request.computing).to_dict()
        _warn(plan, listener)
    if request.fields:
        _emit_fields(pick(plan, request.fields), request.mode)
    elif request.mode == "json":
        emit_json(plan)
    else:
        from barca.render.tables import plan_view

        emit_view(plan_view(plan, request.title, terminal_width()))
    note_selection(plan)
    return 0


def _watch(request: Request, every: float | None) -> int:
    from barca.cli.watching import watch

    later = replace(
        request, computing={**request.computing, "refresh": None, "refresh_all": False, "cascade": True}
    )
    return watch(
        lambda first, quiet: _compute("get", request if first else later, quiet=quiet), request.mode, every
    )


def _compute(verb: Literal["get", "run"], request: Request, *, quiet: bool = False) -> int:
    """Run and show; `quiet` shows nothing where nothing ran but what always does."""
    with listening() as listener, workers_starting(request.executor) as executor:
        project = open_project(request.files, env=request.env, listener=listener)
        result = _result(verb, project, request, executor)
        document = result.to_dict()
        _warn(document, listener)
    if quiet and result.status == "success" and not any(map(_is_news, document["steps"])):
        return 0
    _emit_result(request, document, result, project.root)
    note_selection(document)
    note_unlisted(document)
    note_failed(document)
    note_skipped(document)
    return 0 if result.error is None else report(result.error, request.mode)


def _is_news(step: Mapping[str, Any]) -> bool:
    """Whether a step ran for another reason than that it always does."""
    return step["status"] in {"ran", "partial"} and step["reason"] not in {"sensor", "always"}


def _result(verb: str, project: Project, request: Request, executor: str | Workers | None) -> Result:
    if verb == "run":
        return project.run(request.title, executor=executor, **request.computing)
    return project.get(request.targets, executor=executor, **request.computing)


def _warn(document: Mapping[str, Any], listener: ProgressListener) -> None:
    """Show the warnings that no event brought."""
    for warning in document.get("warnings") or ():
        listener.warn(warning)


# --- looking back -----------------------------------------------------------------------------------


def _look_back(request: Request, as_of: str, *, dry_run: bool, watch: bool) -> int:
    """Show what targets held; nothing is run."""
    computing = request.computing
    told = {
        "--batch": computing["batch"],
        "--refresh": computing["refresh"],
        "--refresh-all": computing["refresh_all"],
        "--no-cascade": not computing["cascade"],
        "--executor": request.executor,
        "--dry-run": dry_run,
        "--watch": watch,
    }
    if others := [option for option, value in told.items() if value]:
        raise UsageError(
            f"--as-of reads what was held and runs nothing: {others[0]} does not go with it",
            code="as_of",
            remediation=f"leave out {', '.join(others)}; --partition selects keys",
        )
    with stdout_kept():
        project = open_project(request.files, env=request.env)
        moment = project.moment(as_of)
        found = project.look_back(request.targets, moment, partition=computing["partition"])
    note_moment(moment)
    document = found.to_dict()
    _emit_result(request, document, found, project.root)
    note_unlisted(document)
    return 0


# --- showing ----------------------------------------------------------------------------------------


def _emit_result(
    request: Request, document: Mapping[str, Any], result: Result | Lookback, root: Path
) -> None:
    if request.output == "path":
        emit_lines(path_lines(document, root))
        return
    valued = result.to_dict(output="value") if request.output == "value" else None
    if request.fields:
        _emit_fields(pick(valued or document, request.fields), request.mode)
    elif request.mode == "json":
        emit_json(valued or document)
    else:
        from barca.cli.showing import result_parts

        emit_view(result_parts(document, result, request.title, valued))


def _emit_fields(document: Mapping[str, Any], mode: Mode) -> None:
    if mode == "json":
        emit_json(document)
        return
    from barca.cli.output import to_json
    from barca.render.grid import grid

    rows = [(name, value if isinstance(value, str) else to_json(value)) for name, value in document.items()]
    emit_view([grid(("field", "value"), rows, terminal_width(), wrap=("value",))])
