"""How a market sees whoever prepares training data."""

from pathlib import Path
from typing import Protocol

from auctune.domain import Quote
from auctune.run.vendors.repair_report import RepairReport


class Vendor(Protocol):
    """Someone who offers to put a data set in order, and does it if the offer is taken."""

    @property
    def name(self) -> str:
        """Unique in its market; quotes and receipts carry it."""
        ...

    def quote(self, path: Path) -> Quote | None:
        """Price and delay for this file; none if the vendor declines.

        Raises:
            InputError: if the file cannot be read at all.
        """
        ...

    def repair(self, source: Path, target: Path) -> RepairReport:
        """Write a file to `target` that `auctune.domain.dataset.read_dataset` takes.

        `target` appears whole or not at all; it may be `source` itself.

        Raises:
            InputError: if `source` cannot be read, or nothing usable would remain.
        """
        ...
