"""`auctune data`: what a data set would teach a base."""

import json
from collections import Counter
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.text import Text

from auctune.datasets.files import find_format
from auctune.domain.data_size import DataSize, method_of
from auctune.domain.dataset import (
    CAUSE_WORDS,
    DEFAULT_MAX_LENGTH,
    DEFAULT_MAX_ROW_CHARACTERS,
    RowKind,
)
from auctune.domain.errors import InputError
from auctune.engine.base_place import base_cache
from auctune.train.data_check import CheckedText, RowCheck, check_rows
from auctune.train.tokenizer import load_tokenizer

data = typer.Typer(help="Data sets: check what would be trained on.", rich_markup_mode=None)

# Shades in turn show where a token ends.
_TARGET = ("black on green3", "black on dark_sea_green2")
_CONTEXT = ("grey85 on grey19", "grey85 on grey30")
_MAX_REFUSED = 20


@data.callback()
def _data() -> None:
    """Data sets: check what would be trained on."""


@data.command()
def check(
    file: Annotated[
        Path, typer.Argument(metavar="FILE", help="JSON lines, a JSON array, CSV or Parquet.")
    ],
    base: Annotated[
        str, typer.Option(metavar="BASE", help='Base model: "tiny", a folder, or hub:NAME.')
    ] = "tiny",
    max_length: Annotated[
        int, typer.Option(min=1, metavar="N", help="Tokens of a row at most.")
    ] = DEFAULT_MAX_LENGTH,
    rows: Annotated[int, typer.Option(min=0, metavar="N", help="First rows to show.")] = 3,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print a line of JSON for each row.")
    ] = False,
) -> None:
    """Show the tokens that a base would learn, and why rows are refused.

    Targets, which are learnt, are green, or between [ and ] without colours; the rest is read as
    context. The exit code is 1 if the file would be refused.
    """
    found = find_format(file, str(file))
    tokenizer, context = load_tokenizer(base, cache=base_cache())
    length = min(max_length, context or max_length)
    checks = check_rows(file, tokenizer, length, DEFAULT_MAX_ROW_CHARACTERS)
    console = Console(highlight=False, soft_wrap=True)
    summary = _Summary()
    try:
        for number, one in enumerate(checks):
            summary.add(one)
            if as_json:
                typer.echo(json.dumps(asdict(one), ensure_ascii=False))
            elif one.refused:
                summary.print_refused(one)
            elif number < rows:
                _print_row(one, console)
    except InputError as error:
        # Where the next row begins is not known.
        if not summary.num_rows:
            raise
        typer.secho(f"{error}", fg="red", err=as_json)
        summary.is_cut = True
    if not summary.num_rows:
        raise InputError(str(file), "has no rows", "a row at least")
    compressed = f", compressed by {found.compression}" if found.compression else ""
    line = f"{found.format}{compressed}; {summary.text(length)}"
    typer.echo(line, err=as_json)
    if not summary.is_accepted:
        raise typer.Exit(1)


class _Summary:
    """Counts of a file's rows.

    Attributes:
        num_rows: so far.
        is_cut: whether the rest cannot be read.
    """

    def __init__(self) -> None:
        self.num_rows = self._num_refused = self._num_truncated = 0
        self._num_tokens = self._num_targets = self._num_trained = 0
        self.is_cut = False
        self._dropped: Counter[str] = Counter()
        self._kinds: Counter[tuple[RowKind, str]] = Counter()

    def add(self, row: RowCheck) -> None:
        self.num_rows += 1
        if row.kind is None:
            self._num_refused += 1
        elif row.dropped is not None:
            self._dropped[row.dropped] += 1
        else:
            self._kinds[row.kind, row.form] += 1
            self._num_trained += 1
            self._num_truncated += row.is_truncated
            self._num_tokens += sum(len(text.tokens) for text in row.texts)
            self._num_targets += sum(text.num_targets for text in row.texts)

    def print_refused(self, row: RowCheck) -> None:
        """Print why a row is refused, if few were before it."""
        if self._num_refused <= _MAX_REFUSED:
            typer.secho(f"{row.where}: refused: {row.refused}", fg="red")
        elif self._num_refused == _MAX_REFUSED + 1:
            typer.echo("more rows are refused ...")

    @property
    def is_accepted(self) -> bool:
        """Return whether the file would be trained on as it is."""
        is_whole = not self._num_refused and not self.is_cut
        return is_whole and self._num_trained > 0 and not self._has_too_many_long

    @property
    def _has_too_many_long(self) -> bool:
        mean_tokens = self._num_tokens / max(1, self._num_trained)
        size = DataSize(self._num_trained, mean_tokens, self._num_truncated, self._dropped)
        return size.has_too_many_long

    def text(self, max_length: int) -> str:
        """Return the counts in a line."""
        rows = "1 row" if self.num_rows == 1 else f"{self.num_rows:,} rows"
        behind = "; what is behind them cannot be read" if self.is_cut else ""
        return f"{rows}: {', '.join(self._parts(max_length))}{behind}"

    def _parts(self, max_length: int) -> Iterator[str]:
        if self._num_trained:
            train = "trains" if self._num_trained == 1 else "train"
            kinds = " and ".join(
                f"{kind}{f' from {form}' if form else ''}" for kind, form in self._kinds
            )
            counts = f"{self._num_tokens:,} tokens, {self._num_targets:,} targets"
            yield f"{self._num_trained:,} {train} as {kinds} ({counts})"
            method = method_of(next(iter(self._kinds))[0])
            if method != "supervised":
                yield f"with --set method={method}"
        if self._num_truncated:
            lose = "loses" if self._num_truncated == 1 else "lose"
            yield f"{self._num_truncated:,} {lose} what is beyond {max_length:,} tokens"
        for cause, count in self._dropped.items():
            yield f"{count:,} left out {CAUSE_WORDS[cause]}"
        if self._has_too_many_long:
            yield f"too many are longer than {max_length:,} tokens, without --set truncate=true"
        if self._num_refused:
            yield f"{self._num_refused:,} refused"


def _print_row(row: RowCheck, console: Console) -> None:
    read = f", read from {row.form}" if row.form else ""
    for number, text in enumerate(row.texts):
        which = ("", "the better answer, ", "the worse answer, ")[len(row.texts) - 1 and number + 1]
        cut = f", {text.num_cut} more are cut" if text.num_cut else ""
        counts = f"{which}{len(text.tokens)} tokens, {text.num_targets} targets{cut}"
        left_out = f"; left out: {CAUSE_WORDS[row.dropped]}" if row.dropped else ""
        console.print(Text(f"{row.where}: {row.kind}{read}; {counts}{left_out}", style="bold"))
        console.print(_coloured(text) if console.is_terminal else Text(_bracketed(text)))


def _coloured(text: CheckedText) -> Text:
    shown = Text()
    for number, token in enumerate(text.tokens):
        # A shade behind the end of a line would fill the window.
        for part in _printable(token.text).splitlines(keepends=True):
            line = part.removesuffix("\n")
            shown.append(line, (_TARGET if token.is_target else _CONTEXT)[number % 2])
            shown.append(part[len(line) :])
    return shown


def _bracketed(text: CheckedText) -> str:
    shown, is_target = "", False
    for token in text.tokens:
        if token.is_target is not is_target:
            shown += "[" if token.is_target else "]"
            is_target = token.is_target
        shown += _printable(token.text)
    return shown + ("]" if is_target else "")


def _printable(text: str) -> str:
    """Return a text with ends of lines shown, and without what a terminal would obey."""
    shown = "".join(c if c.isprintable() or c in "\n\t" else "\ufffd" for c in text)
    return shown.replace("\n", "\u23ce\n")
