"""`auctune init`: write a first auctune.toml, by the answers to four questions."""

import os
import re
import shlex
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated, TypeVar

import typer

from auctune.cli._support.options import MAX_SLOT_SECONDS
from auctune.doctor.checks_system import try_devices
from auctune.doctor.installation import format_gib
from auctune.domain.base_name import HUB, resolve_base
from auctune.domain.errors import InputError
from auctune.service.config.generator import StarterAnswers, starter_file
from auctune.service.config.models import CREDITS, CURRENCY
from auctune.train.host import cpu_name
from auctune.train.packaged_base import PACKAGED_BASES

T = TypeVar("T")

_BASES = ("tiny", *PACKAGED_BASES)


def init(
    out: Annotated[Path, typer.Option(metavar="FILE", help="File to create.")] = Path(
        "auctune.toml"
    ),
    device: Annotated[
        str | None,
        typer.Option(
            metavar="DEVICE",
            help="cpu, cuda:N, or cuda: all GPUs. Default: GPUs, if there are any.",
        ),
    ] = None,
    base: Annotated[
        str | None,
        typer.Option(
            metavar="BASE",
            help=f"Base model: {', '.join(_BASES)}, a folder, or hub:NAME. Default: tiny.",
        ),
    ] = None,
    slot_seconds: Annotated[
        str | None,
        typer.Option(metavar="SECONDS", help="Slot length. Default: 60; 300 for a base of yours."),
    ] = None,
    currency: Annotated[
        str | None,
        typer.Option(metavar="CODE", help="Currency, as in ISO 4217. Default: XXX, credits."),
    ] = None,
    yes: Annotated[
        bool, typer.Option("--yes", help="Ask nothing: the defaults, and what options say.")
    ] = False,
) -> None:
    """Write an auctune.toml with the settings to begin with.

    On a terminal it asks for device, base, slot length and currency, unless an option has one of
    them.
    """
    if out.exists():
        raise InputError(str(out), "already exists", "the name of a new file")
    if not out.parent.is_dir():
        raise InputError(str(out), "is in no folder", "a file in a folder that exists")
    is_given = any(one is not None for one in (device, base, slot_seconds, currency))
    questions = _Questions(not (yes or is_given) and sys.stdin.isatty() and sys.stdout.isatty())
    answers = _answers(questions, out.parent, device, base, slot_seconds, currency)
    try:
        with out.open("x", encoding="utf-8") as file:
            file.write(starter_file(answers))
    except OSError as error:
        found = f"cannot be written ({error.strerror})"
        raise InputError(str(out), found, "the name of a new file") from None
    folder = out.parent / answers.base
    if answers.base in PACKAGED_BASES and not folder.exists():
        option = "" if out.parent == Path() else f" --out {shlex.quote(str(folder))}"
        typer.echo(f"make the base first: auctune base {answers.base}{option}")
    typer.echo(f"wrote {out}; start the service with: auctune serve --config {out}")


@dataclass(frozen=True, slots=True)
class _Questions:
    """Answers by an option, else by a terminal if it is asked, else by default."""

    asks: bool

    def show(self, text: str) -> None:
        if self.asks:
            typer.echo(text)

    def ask(self, question: str, given: str | None, default: str, read: Callable[[str], T]) -> T:
        """Return the answer as `read` returns it; one that it refuses is asked for again."""
        if not self.asks:
            return read(default if given is None else given)

        def read_again(text: str) -> T:
            try:
                return read(text.strip())
            except InputError as error:
                raise typer.BadParameter(f"{error.found}; expected {error.expected}") from None

        answer: T = typer.prompt(question, default=default, value_proc=read_again)
        return answer


def _answers(
    questions: _Questions,
    folder: Path,
    device: str | None,
    base: str | None,
    slot_seconds: str | None,
    currency: str | None,
) -> StarterAnswers:
    gpus = {} if device == "cpu" else _find_gpus()
    questions.show(f"  cpu     {cpu_name()}, {len(os.sched_getaffinity(0))} cores")
    for name, title in gpus.items():
        questions.show(f"  {name}  {title}")
    if gpus:
        questions.show("  cuda    all GPUs")
    devices = questions.ask(
        "Device", device, "cuda" if gpus else "cpu", lambda text: _read_device(text, gpus)
    )
    questions.show("  tiny     a toy model, built on this machine")
    for name, packaged in PACKAGED_BASES.items():
        questions.show(f"  {name}  {packaged.title}")
    questions.show("  or a folder, or hub:NAME")
    model = questions.ask("Base", base, _BASES[0], lambda text: _read_base(text, folder))
    length = "60" if model in _BASES else "300"
    seconds = questions.ask("Slot length in seconds", slot_seconds, length, _read_seconds)
    questions.show("  a code of ISO 4217, such as EUR, or XXX for credits")
    unit = questions.ask("Currency", currency, CREDITS, _read_currency)
    return StarterAnswers(devices, model, seconds, unit)


def _find_gpus() -> Mapping[str, str]:
    """Return the GPUs that compute, as torch names them, with their names and memory."""
    if find_spec("torch") is None:
        typer.echo("no GPU is searched for: torch is not installed", err=True)
        return {}
    typer.echo("searching for GPUs ...", err=True)
    trials = try_devices()
    if isinstance(trials, str):
        typer.echo(f"no GPU is searched for: torch does not start: {trials}", err=True)
        return {}
    return {
        f"cuda:{index}": f"{trial['name']}, {format_gib(trial['total_bytes'])}"
        for index, trial in enumerate(trials)
        if trial["error"] is None
    }


def _read_device(text: str, gpus: Mapping[str, str]) -> tuple[str, ...]:
    if text == "cuda" and gpus:
        return tuple(gpus)
    if text == "cpu" or text in gpus:
        return (text,)
    names = ("cpu", *gpus, *(["cuda"] if gpus else []))
    raise InputError("--device", f"{text!r} is not here", f"{' or '.join(names)}")


def _read_base(text: str, folder: Path) -> str:
    """Return a base as a file in a folder names it."""
    if text in _BASES:
        return text
    try:
        found = resolve_base(text, Path())
    except InputError as error:
        expected = f"{', '.join(_BASES)}, a folder that transformers can load, or hub:NAME"
        raise InputError("--base", f"{text!r} {error.found}", expected) from None
    if found.startswith(HUB):
        return found
    if not Path(found, "config.json").is_file():
        raise InputError("--base", f"{text!r} has no config.json", "a folder of a model")
    return text if folder == Path() else found


def _read_seconds(text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        seconds = 0.0
    if not 1 <= seconds <= MAX_SLOT_SECONDS:
        raise InputError("--slot-seconds", repr(text), f"1 to {MAX_SLOT_SECONDS} seconds")
    return seconds


def _read_currency(text: str) -> str:
    if not re.fullmatch(CURRENCY, text.upper()):
        raise InputError("--currency", repr(text), "three letters, such as EUR; XXX for credits")
    return text.upper()
