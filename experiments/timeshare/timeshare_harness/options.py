"""What every figure's command takes."""

import argparse
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from auctune.domain import InputError
from auctune.sim import figures
from auctune.sim.timeshare.recorded import SHIPPED, RecordedCurve, read_curves

OUT = Path("out/experiments/timeshare")
_BUNDLES, _FEW_BUNDLES = 100, 2


@dataclass(frozen=True, slots=True)
class Options:
    """How a figure is run.

    Attributes:
        out: folder of data and charts.
        folder: of the recorded curves.
        bundles: drawn in each setting.
        seed: of the drawn bundles.
        quick: few bundles and settings, to see that all works.
    """

    out: Path = OUT
    folder: Path = SHIPPED
    bundles: int = _BUNDLES
    seed: int = 0
    quick: bool = False

    @property
    def curves(self) -> tuple[RecordedCurve, ...]:
        """All that were recorded.

        Raises:
            InputError: naming the file.
        """
        return _read(self.folder)

    def curves_of(self, bundle: str) -> list[RecordedCurve]:
        """Those of a bundle of the paper, in its order.

        Raises:
            InputError: if there are none.
        """
        own = [curve for curve in self.curves if curve.bundle == bundle]
        if not own:
            raise InputError("--curves", f"has none of bundle {bundle}", "recorded ones")
        return own


Figure = figures.Figure[Options]


@cache
def _read(folder: Path) -> tuple[RecordedCurve, ...]:
    return read_curves(folder)


def add_options(parser: argparse.ArgumentParser) -> None:
    """Those that all figures have."""
    add = parser.add_argument
    add("--curves", type=Path, default=SHIPPED, help="folder of recorded curves (the package's)")
    add("--out", type=Path, default=OUT, help="folder for data and charts (%(default)s)")
    add("--bundles", type=int, default=None, help=f"drawn in each setting ({_BUNDLES})")
    add("--seed", type=int, default=0, help="of the drawn bundles (%(default)s)")
    add("--quick", action="store_true", help="few bundles, to see that all works")


def to_options(parsed: argparse.Namespace) -> Options:
    """What was parsed, checked.

    Raises:
        InputError: naming the option.
    """
    usual = _FEW_BUNDLES if parsed.quick else _BUNDLES
    bundles = usual if parsed.bundles is None else parsed.bundles
    if bundles < 2:
        raise InputError("--bundles", f"{bundles}", "a whole number >= 2")
    if parsed.seed < 0:
        raise InputError("--seed", f"{parsed.seed}", "a whole number >= 0")
    # A few bundles say nothing of many: their data stand apart.
    out = parsed.out / "quick" if parsed.quick else parsed.out
    return Options(out, parsed.curves, bundles, parsed.seed, parsed.quick)


COMMANDS = figures.Commands(add_options, to_options)
main = COMMANDS.one
parse = COMMANDS.parse
