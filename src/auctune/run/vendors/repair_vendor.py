"""Our own vendor: mends what can be mended, drops what cannot, and accounts for both.

Read, parse, shape, clean; choose the kind of most rows and rewrite the others as it; then leave
out rows that are empty, too short or too long, in a language not asked for, or there already.
The same file and parameters give the same bytes, and a repaired file comes back unchanged.
"""

import json
from pathlib import Path

from auctune.domain import InputError, Quote
from auctune.domain.money import STEP
from auctune.run.atomic_file import write_atomically
from auctune.run.vendors.repair import repair_rows, select_rows
from auctune.run.vendors.repair_params import RepairParams
from auctune.run.vendors.repair_report import RepairReport


class RepairVendor:
    """The vendor that lives in the market's own process."""

    def __init__(self, params: RepairParams | None = None) -> None:
        self._params = params or RepairParams()

    @property
    def name(self) -> str:
        """The vendor's name."""
        return self._params.name

    def quote(self, path: Path) -> Quote | None:
        """Price by rows found, and the delay; none if no usable row would remain.

        Raises:
            InputError: if the file cannot be read.
        """
        sound = select_rows(path, self._params)
        if not sound.drafts:
            return None
        price = self._params.price + self._params.price_per_row * sound.rows_in
        return Quote(self.name, price.quantize(STEP), self._params.delay)

    def repair(self, source: Path, target: Path) -> RepairReport:
        """Write the repaired rows to `target`, whole or not at all.

        Raises:
            InputError: if `source` cannot be read, or no usable row would remain.
        """
        repair = repair_rows(source, self._params)
        if not repair.rows:
            raise InputError(str(source), repair.why_empty, "a data set that can be repaired")
        lines = [json.dumps(row, ensure_ascii=False) for row in repair.rows]
        write_atomically(target, ("\n".join(lines) + "\n").encode())
        return repair.to_report(self.name)
