"""Options that commands share.

`option_groups` lets a command take a dataclass of options as one parameter: the options of a
connection (`ServiceOptions`) and of a job (`auctune.client.spec`) are declared once.
"""

import dataclasses
import functools
import inspect
import itertools
import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, TypeVar, get_args, get_origin, get_type_hints

import typer

from auctune.domain.errors import InputError

T = TypeVar("T")

DATA = Path("auctune-data")
Limit = Annotated[int, typer.Option(min=1, help="Show at most this many, the newest.")]
NewRunFolder = Annotated[Path | None, typer.Option("--out", help="Folder of the run, new.")]
Resume = Annotated[Path | None, typer.Option(metavar="DIR", help="Resume the run in this folder.")]
ShowAll = Annotated[bool, typer.Option("--all", help="Show all, instead of --limit.")]


class Omit:
    """Marks fields of a group that are not options of a command.

    Example: `terms: Annotated[JobTerms, Omit("bid")]`.
    """

    def __init__(self, *names: str) -> None:
        self.names = names


def option_groups(command: Callable[..., None]) -> Callable[..., None]:
    """Make one option of each field of a command's parameters that are dataclasses.

    A field is an annotated option, or has its help text in its metadata; a field that is a mapping
    is a repeatable option of KEY=VALUE texts.
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
        options = _options_of(group, omitted)
        groups[parameter.name] = group, options
        parameters += [_keyword(one.name, one.default, one.annotation) for one in options]

    @functools.wraps(command)
    def run(**given: Any) -> None:
        for name, (group, options) in groups.items():
            given[name] = group(**{one.name: one.read(given.pop(one.name)) for one in options})
        command(**given)

    signature = inspect.Signature(parameters)
    vars(run)["__signature__"] = signature
    run.__annotations__ = {one.name: one.annotation for one in parameters}
    return run


@dataclass(frozen=True, slots=True)
class _GroupOption:
    name: str
    annotation: Any
    default: Any
    read: Callable[[Any], Any]


def _options_of(group: type[Any], omitted: Iterable[str]) -> list[_GroupOption]:
    hints = get_type_hints(group, include_extras=True)
    return [
        _option(one, hints[one.name])
        for one in dataclasses.fields(group)
        if one.init and one.name not in omitted
    ]


def _option(one: "dataclasses.Field[Any]", hint: Any) -> _GroupOption:
    default = inspect.Parameter.empty if one.default is dataclasses.MISSING else one.default
    if "help" not in one.metadata:
        return _GroupOption(one.name, hint, default, lambda value: value)
    text, metavar = one.metadata["help"], one.metadata.get("metavar")
    if one.metadata.get("argument"):
        annotation = Annotated[hint, typer.Argument(help=text, show_default=False)]
        return _GroupOption(one.name, annotation, default, lambda value: value)
    flag = _name_of(one)
    # Without a name of its own a flag gets its negation too.
    option = typer.Option(*([] if hint is bool else [flag]), metavar=metavar, help=text)
    if get_origin(hint) is Mapping:
        return _GroupOption(
            one.name,
            Annotated[list[str] | None, option],
            None,
            lambda texts: parse_key_values(texts or (), flag, metavar or "KEY=VALUE"),
        )
    return _GroupOption(one.name, Annotated[hint, option], default, lambda value: value)


def given_options(*groups: Any) -> dict[str, Any]:
    """Return the values of groups of options by their names on the command line."""
    return {
        _name_of(one): getattr(group, one.name)
        for group in groups
        for one in dataclasses.fields(group)
    }


def changed_options(group: Any) -> dict[str, Any]:
    """Return those options of a group that differ from their defaults."""
    defaults = {_name_of(one): one.default for one in dataclasses.fields(group)}
    return {name: value for name, value in given_options(group).items() if value != defaults[name]}


def refuse_given(option: str, others: Mapping[str, object], expected: str) -> None:
    """Refuse options beside another one.

    Args:
        option: the other one.
        others: values by option; one that is false, or `None`, was not given.
        expected: as of `InputError`.

    Raises:
        InputError: naming the first that is given.
    """
    for name, value in others.items():
        if value:
            raise InputError(name, f"is given with {option}", expected)


def _name_of(one: "dataclasses.Field[Any]") -> str:
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
    """Parse KEY=VALUE texts of a repeatable option.

    Raises:
        InputError: for a text without `=`, without a key, or with a key that came before.
    """
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
    """Return the first `limit` items, or all; say on standard error if there are more.

    Args:
        items: newest first; read no further than needed.
        limit: at most this many.
        all_: return all.
    """
    if all_:
        return list(items)
    found = list(itertools.islice(items, limit + 1))
    if len(found) > limit:
        typer.echo(f"showing the newest {limit}; for more: --all, or a higher --limit", err=True)
    return found[:limit]
