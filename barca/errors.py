"""The one tree of errors that barca raises.

```
BarcaError
├── UsageError            kind "usage": the call, the command line or a definition is wrong
│   ├── DefinitionError       a decorator's arguments or a function's parameters
│   ├── LoadError             a project file that cannot be imported or parsed
│   └── SelectionError        a target, key or dimension that does not exist
├── StepFailed            kind "step_failed": user code raised, timed out, or its worker died
│   ├── OutputError           a result that cannot be stored or does not fit the call's keys
│   ├── InputError            an input that cannot be given in the annotated form
│   └── SinkError             a result that could not be published
├── StoreError            kind "infra": the store or the machine
│   ├── FragmentError         a pack that is missing, cut or not the one that was written
│   └── LedgerError           a ledger that cannot be read or appended to
└── Cancelled             kind "cancelled": the run was interrupted
```

Every error carries fields, so that the command line and JSON need not parse text, and pickles whole,
so that it crosses process boundaries. `Failed` is none of them: it is what functions say of a key.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, Literal

if TYPE_CHECKING:
    from collections.abc import Iterable

ErrorKind = Literal["usage", "step_failed", "infra", "cancelled"]


class BarcaError(Exception):
    """Root of the tree.

    Attributes:
        message: What happened, one or more sentences.
        code: Stable snake_case name of the situation, for scripts.
        remediation: What to do about it, or `None`.
        node: Node id concerned, or `None`.
        key: Display form of the key concerned, or `None`.
        traceback: The user's traceback as text, or `None`.
        file: File concerned, or `None`.
        line: Line in `file`, or `None`.
    """

    kind: ClassVar[ErrorKind] = "infra"
    default_code: ClassVar[str] = "error"

    def __init__(
        self,
        message: str,
        *,
        code: str | None = None,
        remediation: str | None = None,
        node: str | None = None,
        key: str | None = None,
        traceback: str | None = None,
        file: str | None = None,
        line: int | None = None,
    ) -> None:
        super().__init__(message)
        self.message = message
        self.code = code or self.default_code
        self.remediation = remediation
        self.node = node
        self.key = key
        self.traceback = traceback
        self.file = file
        self.line = line

    def fields(self) -> dict[str, Any]:
        """The fields that are set, besides the message."""
        names = ("code", "remediation", "node", "key", "traceback", "file", "line")
        return {name: value for name in names if (value := getattr(self, name)) is not None}

    def __reduce__(self) -> tuple[Any, ...]:
        return _rebuild, (type(self), self.message, self.fields())

    def _render_traceback_(self) -> list[str]:
        """What notebooks show for it: the user's frames only."""
        from barca.tracebacks import notebook_lines

        return notebook_lines(self, self._step, self.traceback)

    def show_step(self) -> None:
        """Have the traceback of the step shown wherever this error is, below its message."""
        from barca.tracebacks import in_step

        if self.traceback is not None:
            self.add_note(in_step(self._step, self.traceback))

    @property
    def _step(self) -> str | None:
        return f"{self.node}[{self.key}]" if self.node and self.key else self.node

    def __str__(self) -> str:
        where = ":".join(str(part) for part in (self.file, self.line) if part is not None)
        text = f"{where}: {self.message}" if where else self.message
        return f"{text}\nhint: {self.remediation}" if self.remediation else text


def _rebuild(error_type: type[BarcaError], message: str, fields: dict[str, Any]) -> BarcaError:
    return error_type(message, **fields)


class UsageError(BarcaError):
    """The call, the command line or a definition is wrong; nothing was run."""

    kind = "usage"
    default_code = "usage"


class DefinitionError(UsageError):
    """A decorator's arguments, or a function's parameters, are wrong."""

    default_code = "definition"


class LoadError(UsageError):
    """A project file cannot be imported or parsed, or one of its expressions raised."""

    default_code = "load_error"


class SelectionError(UsageError):
    """A target, key or dimension that does not exist."""

    default_code = "selection"


class StepFailed(BarcaError):
    """User code raised, ran past its timeout, or the worker that ran it died."""

    kind = "step_failed"
    default_code = "step_failed"


class OutputError(StepFailed):
    """A result that cannot be stored, or that does not fit the keys of its call."""

    default_code = "output"


class InputError(StepFailed):
    """An input that cannot be given in the form the parameter's annotation asks for."""

    default_code = "input"


class SinkError(StepFailed):
    """A result that could not be published."""

    default_code = "sink"


class StoreError(BarcaError):
    """The store, the file system or the machine failed."""

    default_code = "store"


class FragmentError(StoreError):
    """A pack that is missing, cut short, or not the one that was written."""

    default_code = "fragment"


class LedgerError(StoreError):
    """A ledger that cannot be read or appended to."""

    default_code = "ledger"


class Cancelled(BarcaError):
    """The run was interrupted; what it had committed is kept."""

    kind = "cancelled"
    default_code = "cancelled"


class Failed(Exception):  # a value first of all: `{key: Failed("no prices yet")}`
    """A batch function's answer for one key that could not be computed: that key fails, the others don't.

    May be raised as well, which fails the call it is raised in.

    Attributes:
        reason: Why, as it will stand in the key's error.
    """

    __match_args__ = ("reason",)

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = str(reason)

    def __eq__(self, other: object) -> bool:
        return self.reason == other.reason if isinstance(other, Failed) else NotImplemented

    def __hash__(self) -> int:
        return hash((Failed, self.reason))


def error_text(error_type: str | None, message: str | None) -> str:
    """`ValueError: no rows`; of an error that says nothing, as of a bare `assert`, its type alone."""
    return f"{error_type}: {message}" if error_type and message else error_type or message or ""


def plural(count: int, noun: str) -> str:
    """`1 key`, `2 keys`, `10,000 keys`."""
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"


_COMPARED = 2_000


def did_you_mean(given: str, valid: Iterable[str], *, limit: int = 12) -> str:
    """A hint that names the closest valid choice and lists the choices.

    Args:
        given: What was written.
        valid: What would have been accepted.
        limit: At most so many choices are listed.
    """
    import difflib

    choices = list(valid)
    close = difflib.get_close_matches(given, _comparable(given, choices), n=1)
    shown = ", ".join(f"`{one_line(choice)}`" for choice in choices[:limit])
    more = f" and {len(choices) - limit:,} more" if len(choices) > limit else ""
    listing = f"valid: {shown}{more}" if choices else "there are none"
    return f"did you mean `{one_line(close[0])}`? {listing}" if close else listing


def one_line(choice: str) -> str:
    r"""A choice as it stands in a list of them: line ends and control characters as `\n`, `\x1b`."""
    return (
        choice if choice.isprintable() else "".join(c if c.isprintable() else repr(c)[1:-1] for c in choice)
    )


def _comparable(given: str, choices: list[str]) -> list[str]:
    """Of very many choices, too many to compare each, those that begin most like what was given."""
    length = len(given)
    while len(choices) > _COMPARED and length:
        if near := [name for name in choices if name.startswith(given[:length])]:
            return near[:_COMPARED]
        length -= 1
    return choices[:_COMPARED]
