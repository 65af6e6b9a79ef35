"""Looks at data sets through a base's tokenizer."""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from auctune.domain import InputError
from auctune.domain.data_size import TOKEN_COST, DataSize, method_of
from auctune.domain.dataset import DEFAULT_MAX_ROW_CHARACTERS, RowKind
from auctune.engine.messages.data import Appraisal, DataFacts, Offer
from auctune.engine.vendors import RepairVendor
from auctune.engine.vendors.reading import read_raw_rows
from auctune.train.rows import TokenizedDataSet
from auctune.train.stored_tokens import TokenWriter, is_stored
from auctune.train.tokenized_file import block_of, tokenize_file

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase


@dataclass(frozen=True, slots=True)
class Examiner:
    """Looks at data sets.

    Attributes:
        tokenizer: the base's.
        context_tokens: the longest row that the base can read; none: no limit.
        max_row_characters: of a row's line; a file with a longer one is refused.
        reserve_bytes: that stored tokens leave free on the disk.
    """

    tokenizer: "PreTrainedTokenizerBase"
    context_tokens: int | None
    max_row_characters: int = DEFAULT_MAX_ROW_CHARACTERS
    reserve_bytes: int = 0

    def store(self, path: Path, place: str, max_length: int) -> None:
        """Store a clean data set's tokens beside it, unless they are; arguments as of `facts`.

        Raises:
            InputError: as `facts`.
        """
        if not is_stored(path, self.tokenizer, self._length(max_length)):
            self.facts(path, place, max_length, store=True)

    def facts(self, path: Path, place: str, max_length: int, *, store: bool = False) -> DataFacts:
        """What a clean data set is.

        Args:
            path: the file.
            place: how errors call it.
            max_length: tokens of a row at most, as the task has it.
            store: whether to store its tokens beside it, for those who train on it.

        Raises:
            InputError: if it is no clean data set, or nothing in it can be learnt.
        """
        length = self._length(max_length)
        if not store:
            return self._facts(path, place, length, lambda _: None)
        with TokenWriter(path, self.tokenizer, length, self.reserve_bytes) as writer:
            return self._facts(path, place, length, lambda chunk: writer.add(block_of(chunk)))

    def _facts(
        self, path: Path, place: str, length: int, keep: Callable[[TokenizedDataSet], None]
    ) -> DataFacts:
        kind: RowKind | None = None
        num_rows = num_tokens = square_tokens = num_truncated = longest = 0
        dropped: Counter[str] = Counter()
        # Nothing stays in memory of a chunk but its counts: that does not grow with the file.
        for found, chunk in tokenize_file(
            path, place, self.tokenizer, length, self.max_row_characters, self.context_tokens
        ):
            kind = found
            num_rows += len(chunk)
            num_tokens += chunk.num_tokens
            square_tokens += chunk.square_tokens
            num_truncated += chunk.num_truncated
            longest = max(longest, chunk.longest)
            dropped.update(map(str, chunk.dropped.values()))
            keep(chunk)
        assert kind is not None
        cost = TOKEN_COST[method_of(kind)]
        return DataFacts(
            kind=kind,
            rows=num_rows,
            mean_tokens=num_tokens / num_rows * cost,
            square_tokens=square_tokens / num_rows * cost,
            num_truncated=num_truncated,
            longest=longest,
            dropped=dict(dropped),
            context_tokens=self.context_tokens,
        )

    def appraise(
        self, path: Path, place: str, max_length: int, vendors: Sequence[RepairVendor]
    ) -> Appraisal:
        """What a data set is that a vendor must repair first, and who offers to.

        Raises:
            InputError: if it cannot be read, or none of the vendors can make anything of it.
        """
        size = self.raw_size(path, place, max_length)
        return Appraisal(size, tuple(self._offers(path, place, max_length, vendors)))

    def raw_size(self, path: Path, place: str, max_length: int) -> DataSize:
        """How much a data set is that is to be repaired: every row counts by its own text.

        Raises:
            InputError: if it cannot be read, or has no rows.
        """
        limit = self._length(max_length)
        num_rows = num_tokens = square_tokens = 0
        for raw in read_raw_rows(path, place):
            num_rows += 1
            tokens = min(limit, self._num_tokens(raw.text))
            num_tokens += tokens
            square_tokens += tokens**2
        if not num_rows:
            raise InputError(place, "has no rows", "one row a line")
        mean, square = num_tokens / num_rows, square_tokens / num_rows
        return DataSize(num_rows, max(1.0, mean), square_tokens=max(1.0, square))

    def _num_tokens(self, text: str) -> int:
        """Return the tokens of a raw row; of a long one its bytes, which are not fewer."""
        if len(text) > self.max_row_characters:
            return len(text.encode())
        return len(self.tokenizer(text, verbose=False)["input_ids"])

    def _length(self, max_length: int) -> int:
        return min(max_length, self.context_tokens or max_length)

    def _offers(
        self, path: Path, place: str, max_length: int, vendors: Sequence[RepairVendor]
    ) -> Iterator[Offer]:
        """Offers of all vendors that can make something of the data.

        Their work is done once on trial: what is sold must be possible.
        """
        trouble = InputError(
            place, "has nothing that a vendor could repair", "a row with text in it at least"
        )
        num_offers = 0
        with TemporaryDirectory() as folder:
            trial = Path(folder) / "data.jsonl"
            for vendor in vendors:
                try:
                    quote = vendor.quote(path)
                    # One that declines says why when it is to repair all the same.
                    vendor.repair(path, trial)
                except InputError as error:
                    trouble = InputError(place, error.found, error.expected)
                    continue
                if quote is None:
                    continue
                after = f"{place} after {vendor.name} repaired it"
                try:
                    facts = self.facts(trial, after, max_length)
                except InputError as error:
                    trouble = error
                else:
                    num_offers += 1
                    yield Offer(quote, facts)
        if not num_offers:
            raise trouble
