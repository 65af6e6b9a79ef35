"""Looks at data sets through a base's tokenizer."""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from auctune.domain import InputError
from auctune.domain.dataset import iterate_lines, read_dataset
from auctune.run.data.facts import Appraisal, DataFacts, DataSize, Offer
from auctune.run.vendors import Vendor
from auctune.train.rows import tokenize

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase


@dataclass(frozen=True, slots=True)
class Examiner:
    """Looks at data sets.

    Attributes:
        tokenizer: the base's.
        context_tokens: the longest row that the base can read; none: no limit.
    """

    tokenizer: "PreTrainedTokenizerBase"
    context_tokens: int | None

    def facts(self, path: Path, place: str, max_length: int) -> DataFacts:
        """What a clean data set is.

        Args:
            path: the file.
            place: how errors call it.
            max_length: tokens of a row at most, as the task has it.

        Raises:
            InputError: if it is no clean data set, or nothing in it can be learnt.
        """
        dataset = read_dataset(path, place)
        try:
            data = tokenize(dataset, self.tokenizer, self._length(max_length))
        except InputError as error:
            raise error.within(place) from None
        return DataFacts(
            kind=dataset.kind,
            rows=len(data),
            mean_tokens=data.mean_tokens,
            num_truncated=data.num_truncated,
            longest=data.longest,
            dropped=dict(Counter(map(str, data.dropped.values()))),
        )

    def appraise(
        self, path: Path, place: str, max_length: int, vendors: Sequence[Vendor]
    ) -> Appraisal:
        """What a data set is that a vendor must repair first, and who offers to.

        Raises:
            InputError: if it cannot be read, or none of the vendors can make anything of it.
        """
        size = self.raw_size(path, place, max_length)
        return Appraisal(size, tuple(self._offers(path, place, max_length, vendors)))

    def raw_size(self, path: Path, place: str, max_length: int) -> DataSize:
        """How much a data set is that is to be repaired: every line a row of its own text.

        Raises:
            InputError: if it cannot be read, or has no rows.
        """
        limit = self._length(max_length)
        lengths = [
            min(limit, len(self.tokenizer(line, verbose=False)["input_ids"]))
            for _, line in iterate_lines(path, place, errors="replace")
        ]
        if not lengths:
            raise InputError(place, "has no rows", "one row a line")
        return DataSize(len(lengths), max(1.0, sum(lengths) / len(lengths)))

    def _length(self, max_length: int) -> int:
        return min(max_length, self.context_tokens or max_length)

    def _offers(
        self, path: Path, place: str, max_length: int, vendors: Sequence[Vendor]
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
