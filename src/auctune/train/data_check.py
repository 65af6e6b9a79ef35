"""What a data set would teach a base, row by row, and why rows would be refused."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from tokenizers.decoders import DecodeStream

from auctune.datasets import read_row
from auctune.datasets.files import iterate_texts
from auctune.domain.dataset import DataSet, DropCause, RowKind
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
        dropped: why the row would be left out; None: it would not.
    """

    where: str
    kind: RowKind | None = None
    form: str = ""
    texts: tuple[CheckedText, ...] = ()
    refused: str = ""
    dropped: DropCause | None = None

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
        InputError: if the file cannot be read, from some row on.
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
        dropped = cut if isinstance(cut, DropCause) else None
        check = RowCheck(where, read.kind, read.form, texts, dropped=dropped)
        first = first or check
        yield check


def _text(piece: Piece, tokenizer: "PreTrainedTokenizerBase", max_length: int) -> CheckedText:
    ids, is_target = piece
    # Some decoders leave out what a token has before it, or is a part of: the stream knows both.
    stream = DecodeStream(skip_special_tokens=False)
    backend = tokenizer.backend_tokenizer
    texts = [stream.step(backend, one) or "" for one in ids[:max_length]]
    if texts and not texts[-1]:
        # What is missing of a character was cut off.
        texts[-1] = "\ufffd"
    # Nothing is predicted before the first token.
    targets = [number > 0 and target for number, target in enumerate(is_target)]
    tokens = tuple(map(Token, texts, targets))
    return CheckedText(tokens, max(0, len(ids) - max_length))
