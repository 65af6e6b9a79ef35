"""What a data set would teach a base, row by row, and why rows would be refused."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from auctune.datasets import read_row
from auctune.datasets.files import iterate_texts
from auctune.domain.dataset import CAUSE_WORDS, DataSet, DropCause, RowKind
from auctune.domain.errors import InputError
from auctune.train.rows import Piece, cut_row, row_pieces

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase


@dataclass(frozen=True, slots=True)
class Token:
    """A token as text, and whether it is a target of the loss."""

    text: str
    is_target: bool


@dataclass(frozen=True, slots=True)
class CheckedText:
    """Tokens of a row: of one answer, where it has two.

    Attributes:
        tokens: that are trained on or read, without those behind `max_length`.
        num_cut: tokens behind it.
    """

    tokens: tuple[Token, ...]
    num_cut: int

    @property
    def num_targets(self) -> int:
        """Number of targets."""
        return sum(token.is_target for token in self.tokens)


@dataclass(frozen=True, slots=True)
class RowCheck:
    """What a row is.

    Attributes:
        where: it stands in the file.
        kind: of it; None: it cannot be read.
        form: of another tool that it is read from; "": OpenAI's, or none.
        texts: its tokens, two of a preference; empty if it is refused.
        refused: why the file would be refused for it; "": it would not.
        dropped: why the row would be left out; "": it would not.
    """

    where: str
    kind: RowKind | None = None
    form: str = ""
    texts: tuple[CheckedText, ...] = ()
    refused: str = ""
    dropped: str = ""

    @property
    def is_truncated(self) -> bool:
        """Return whether the row would lose its end."""
        return any(text.num_cut for text in self.texts)


def check_rows(
    path: Path, tokenizer: "PreTrainedTokenizerBase", max_length: int, max_row_characters: int
) -> Iterator[RowCheck]:
    """Yield what each row of a file is; a row that would be refused ends nothing.

    Args:
        path: the file.
        tokenizer: of the base.
        max_length: tokens of a row at most.
        max_row_characters: of a row's text.

    Raises:
        InputError: if the file cannot be read, or a row in it is too long.
    """
    first: RowCheck | None = None
    for where, text in iterate_texts(path, str(path), max_characters=max_row_characters):
        try:
            read = read_row(text, where)
            if first is not None and first.kind is not read.kind:
                found = f"is a row of kind {read.kind}, while {first.where} is of kind {first.kind}"
                raise InputError(where, found, "rows of one kind only")
            row = DataSet(read.kind, (read.values,), (where,))
            (pieces,) = row_pieces(row, tokenizer)
        except InputError as error:
            yield RowCheck(where, refused=str(error).removeprefix(f"{where}: "))
            continue
        texts = tuple(_text(piece, tokenizer, max_length) for piece in pieces)
        cut = cut_row(read.values, pieces, max_length)
        why = CAUSE_WORDS[cut] if isinstance(cut, DropCause) else ""
        check = RowCheck(where, read.kind, read.form, texts, dropped=why)
        first = first or check
        yield check


def _text(piece: Piece, tokenizer: "PreTrainedTokenizerBase", max_length: int) -> CheckedText:
    ids, is_target = piece
    tokens: list[Token] = []
    waiting: list[int] = []
    for number, (one, target) in enumerate(zip(ids[:max_length], is_target, strict=False)):
        waiting.append(one)
        text = tokenizer.decode(waiting, clean_up_tokenization_spaces=False)
        # Some tokens are parts of a character only.
        if text.endswith("\ufffd") and len(waiting) < 4 and number + 1 < min(len(ids), max_length):
            continue
        # Nothing is predicted before the first token.
        tokens += [Token("", target and number >= len(waiting))] * (len(waiting) - 1)
        tokens.append(Token(text, target and number > 0))
        waiting = []
    return CheckedText(tuple(tokens), max(0, len(ids) - max_length))
