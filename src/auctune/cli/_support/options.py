"""Shared options of commands, and their parsing.

`option_groups` lets a command take a dataclass of options as one parameter, so that the options of
a connection (`ServiceOptions`) and of a job (`auctune.client.spec`) are declared once.
"""

import dataclasses
import functools
import inspect
import itertools
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar, get_args, get_origin, get_type_hints

import typer

from auctune.domain.errors import InputError

if TYPE_CHECKING:
    from auctune.registry.policies import Catalogue

T = TypeVar("T")

DATA = Path("auctune-data")
MAX_SLOT_SECONDS = 86_400
"""Slot length at most, where an option or an answer states it."""
LABEL = "NAME[:KEY=VALUE...]"
"""Form of the name of a mechanism, policy or allocator with its settings."""

Charts = Annotated[
    Path | None, typer.Option(metavar="DIR", help="Write charts (SVG and PNG) to this folder.")
]
Device = Annotated[str, typer.Option(metavar="DEVICE", help="cpu, cuda or cuda:N.")]
Dtype = Annotated[str, typer.Option(metavar="DTYPE", help="float32, bfloat16 or nf4.")]
Limit = Annotated[int, typer.Option(min=1, help="Show at most this many, the newest.")]
ShowAll = Annotated[bool, typer.Option("--all", help="Show all, whatever --limit.")]


class Omit:
    """Marker of fields of a group that are not options of a command.

    Example: `terms: Annotated[JobTerms, Omit("bid")]`.
    """

    def __init__(self, *names: str) -> None:
        self.names = names


def option_groups(command: Callable[..., None]) -> Callable[..., None]:
    """Expand a command's parameters that are dataclasses to an option for each field.

    A field is an annotated option, or has a help text in its metadata; a mapping becomes a
    repeatable option of KEY=VALUE texts. One that is a context manager is entered meanwhile.
    """
    hints = get_type_hints(command, include_extras=True)
    parameters: list[inspect.Parameter] = []
    groups: dict[str, tuple[type[Any], list[_GroupOption]]] = {}
    for parameter in inspect.signature(command).parameters.values():
        hint = hints[parameter.name]
        group, *markers = get_args(hint) if get_origin(hint) is Annotated else (hint,)
        if not dataclasses.is_dataclass(group):
            parameters.append(_keyword(parameter.name, parameter.default, hint))
            continue
        assert isinstance(group, type)
        omitted = [name for one in markers if isinstance(one, Omit) for name in one.names]
        types = get_type_hints(group, include_extras=True)
        options = [
            _option(one, types[one.name])
            for one in dataclasses.fields(group)
            if one.init and one.name not in omitted
        ]
        groups[parameter.name] = group, options
        parameters += [_keyword(one.name, one.default, one.annotation) for one in options]

    @functools.wraps(command)
    def run(**values: Any) -> None:
        for name, (group, options) in groups.items():
            values[name] = group(**{one.name: one.read(values.pop(one.name)) for one in options})
        with ExitStack() as stack:
            for value in values.values():
                # Python before 3.13 lets a path be entered, with a warning.
                if isinstance(value, AbstractContextManager) and not isinstance(value, Path):
                    stack.enter_context(value)
            command(**values)

    vars(run)["__signature__"] = inspect.Signature(parameters)
    run.__annotations__ = {one.name: one.annotation for one in parameters}
    return run


@dataclass(frozen=True, slots=True)
class _GroupOption:
    """An option made of a field, and how its value is read from the command line."""

    name: str
    annotation: Any
    default: Any
    read: Callable[[Any], Any] = lambda value: value


def _option(one: "dataclasses.Field[Any]", hint: Any) -> _GroupOption:
    default = inspect.Parameter.empty if one.default is dataclasses.MISSING else one.default
    if "help" not in one.metadata:
        return _GroupOption(one.name, hint, default)
    name, text, metavar = option_of(one), one.metadata["help"], one.metadata.get("metavar")
    if one.metadata.get("argument"):
        argument = typer.Argument(metavar=name, help=text, show_default=False)
        return _GroupOption(one.name, Annotated[hint, argument], default)
    option = typer.Option(name, metavar=metavar, help=text)
    if get_origin(hint) is Mapping:
        return _GroupOption(
            one.name,
            Annotated[list[str] | None, option],
            None,
            lambda texts: parse_key_values(texts or (), name, metavar or "KEY=VALUE"),
        )
    return _GroupOption(one.name, Annotated[hint, option], default)


def given_options(*groups: Any) -> dict[str, Any]:
    """Return the values of groups of options by their names on the command line."""
    return {
        option_of(one): getattr(group, one.name)
        for group in groups
        for one in dataclasses.fields(group)
    }


def changed_options(group: Any) -> dict[str, Any]:
    """Return the options of a group that differ from their defaults."""
    defaults = {option_of(one): one.default for one in dataclasses.fields(group)}
    return {name: value for name, value in given_options(group).items() if value != defaults[name]}


def refuse_combined(option: str, others: Mapping[str, object], expected: str) -> None:
    """Refuse other options, whose values are given by name, beside an option."""
    for name, value in others.items():
        if value:
            raise InputError(name, f"cannot be combined with {option}", expected)


def parse_labels(labels: Sequence[str], option: str, catalogue: "Catalogue[T]") -> list[T]:
    """Make what labels such as `ahap:window=5` of an option name; no two may be equal."""
    made: list[T] = []
    for label in labels:
        one = catalogue.parse(label, option)
        if one in made:
            raise InputError(option, f"{label} is given twice", f"each {catalogue.place} once")
        made.append(one)
    return made


def option_of(one: "dataclasses.Field[Any]") -> str:
    """Return the option of a declared field, such as --max-cost, or the name of its argument."""
    if one.metadata.get("argument"):
        return one.name.upper()
    return str(one.metadata.get("flag") or "--" + one.name.replace("_", "-"))


def _keyword(name: str, default: Any, annotation: Any) -> inspect.Parameter:
    return inspect.Parameter(
        name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=annotation
    )


def parse_key_values(
    texts: Iterable[str], option: str = "--set", form: str = "KEY=VALUE"
) -> dict[str, str]:
    """Parse KEY=VALUE texts of a repeatable option, each key once."""
    parsed: dict[str, str] = {}
    for text in texts:
        key, equals, value = text.partition("=")
        if not equals or not key:
            raise InputError(option, repr(text), form)
        if key in parsed:
            raise InputError(option, f"{key!r} is given twice", "each key once")
        parsed[key] = value
    return parsed


def print_json(record: Any) -> None:
    """Print a record as indented JSON."""
    typer.echo(json.dumps(record, indent=2, ensure_ascii=False))


def take_newest(items: Iterable[T], limit: int, *, all_: bool) -> list[T]:
    """Return the first `limit` items, or all; note on standard error if there are more.

    No more items are read than needed.
    """
    if all_:
        return list(items)
    newest = list(itertools.islice(items, limit + 1))
    if len(newest) > limit:
        typer.echo(f"showing the newest {limit}; for more: --all, or a higher --limit", err=True)
    return newest[:limit]
