"""How like real spot markets the made-up ones are: tables in Markdown, and charts to look at.

    python benchmarks/spot_generator.py FOLDER_OF_MARKET_FILES OUT

FOLDER holds the files of the benchmark market. Each figure of a record stands beside the mean and
the middle 80% of 200 made-up series as long. The law is fitted to the whole record first; then to
each half of it, and held against the other half.
"""

import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TypeVar

import numpy as np

from auctune.charts.curves import series_chart
from auctune.charts.render import to_svg
from auctune.charts.spot import Band, goodness_of_fit_chart
from auctune.numerics.arrays import Floats, Ints
from auctune.sim.spot.generator import (
    CountParams,
    PriceParams,
    autocorrelation,
    fit_counts,
    fit_prices,
    generate_counts,
    generate_prices,
)
from auctune.sim.spot.statistics import (
    GoodnessOfFit,
    compare,
    count_figures,
    price_figures,
    run_lengths,
)
from auctune.sim.spot.trace import (
    ON_DEMAND_V100,
    in_units,
    read_trace,
    slot_counts,
    slot_prices,
    whole_slots,
)
from auctune.sim.spot.trials import CAP, COUNTS, PRICES

SLOT = 1800.0
RUNS = 200

Series = TypeVar("Series", Floats, Ints)
Law = TypeVar("Law")


def main(folder: Path, out: Path) -> None:
    out.mkdir(parents=True, exist_ok=True)
    counts = read_counts(folder)
    prices = read_prices(folder)
    law = fit_counts([counts], CAP, SLOT)
    print(law, end="\n\n")
    print_rows("Counts, fitted to all 16 days", like_counts(counts, law))
    print_halves("Counts", [counts], lambda part: fit_counts(part, CAP, SLOT), like_counts_of)
    price_law = fit_prices(prices, SLOT)
    print(price_law, end="\n\n")
    print_rows("Prices, fitted to all 90 days", like_prices(prices, price_law))
    print_halves("Prices", prices, lambda part: fit_prices(part, SLOT), like_prices)
    draw_counts(counts, law, out)
    draw_prices(prices, price_law, out)


def read_counts(folder: Path) -> Ints:
    trace = read_trace(folder / COUNTS)
    return slot_counts(trace, 0.0, SLOT, whole_slots(trace, 0.0, SLOT))


def read_prices(folder: Path) -> list[Floats]:
    traces = [read_trace(path) for path in sorted(folder.glob(PRICES))]
    return [
        in_units(slot_prices(trace, 0.0, SLOT, whole_slots(trace, 0.0, SLOT)), ON_DEMAND_V100)
        for trace in traces
    ]


def like_counts(record: Ints, law: CountParams) -> Sequence[GoodnessOfFit]:
    def figures(seed: int) -> dict[str, float]:
        return count_figures(generate_counts(law, len(record), seed, SLOT), CAP)

    return compare(count_figures(record, CAP), figures, RUNS)


def like_counts_of(records: list[Ints], law: CountParams) -> Sequence[GoodnessOfFit]:
    return like_counts(records[0], law)


def like_prices(records: list[Floats], law: PriceParams) -> Sequence[GoodnessOfFit]:
    """Figures of a zone, their means over zones, beside those of made-up zones."""
    each = [price_figures(price) for price in records]
    means = {name: float(np.mean([figures[name] for figures in each])) for name in each[0]}

    def figures(seed: int) -> dict[str, float]:
        return price_figures(generate_prices(law, len(records[0]), seed, SLOT))

    return compare(means, figures, RUNS)


def print_halves(
    what: str,
    records: list[Series],
    fit: Callable[[list[Series]], Law],
    like: Callable[[list[Series], Law], Sequence[GoodnessOfFit]],
) -> None:
    half = len(records[0]) // 2
    first, second = [r[:half] for r in records], [r[half:] for r in records]
    print_rows(f"{what}, fitted to the first half, against the second", like(second, fit(first)))
    print_rows(f"{what}, fitted to the second half, against the first", like(first, fit(second)))


def print_rows(title: str, rows: Sequence[GoodnessOfFit]) -> None:
    print(f"{title}: {sum(row.within for row in rows)} of {len(rows)} within\n")
    print("| figure | record | made up, mean | middle 80% | within |")
    print("| --- | --- | --- | --- | --- |")
    for row in rows:
        shown = f"{row.record:.4g} | {row.mean:.4g} | {row.low:.4g} to {row.high:.4g}"
        print(f"| {row.figure} | {shown} | {'yes' if row.within else 'no'} |")
    print()


def draw_counts(record: Ints, law: CountParams, out: Path) -> None:
    made = [generate_counts(law, len(record), seed, SLOT) for seed in range(RUNS)]
    series = {"recorded": record, "made up, seed 0": made[0], "seed 1": made[1], "seed 2": made[2]}
    shown = {name: counts.tolist() for name, counts in series.items()}
    (out / "spot-counts.svg").write_text(to_svg(series_chart(shown, SLOT, "GPUs")))
    lengths = np.unique(np.round(np.geomspace(1, 180, 30)))

    def lasting(counts: Ints) -> Floats:
        """Share of the slots without a GPU that lie in runs of at least each length."""
        runs = run_lengths(counts == 0)
        total = max(int(runs.sum()), 1)
        return np.array([runs[runs >= length].sum() / total for length in lengths])

    runs = band_of(lengths / 2, lasting(record), [lasting(c) for c in made])
    panels = [
        correlation_band(record.astype(float), [c.astype(float) for c in made]),
        Band("hours", "share of empty slots in runs that long", *runs),
    ]
    (out / "spot-counts-likeness.svg").write_text(to_svg(goodness_of_fit_chart(panels)))


def draw_prices(records: list[Floats], law: PriceParams, out: Path) -> None:
    made = [generate_prices(law, len(records[0]), seed, SLOT) for seed in range(RUNS)]
    series = {
        "recorded, us-east-2b": records[4],
        "recorded, us-west-2a": records[5],
        "made up, seed 0": made[0],
        "seed 1": made[1],
    }
    shown = {name: price[::4].tolist() for name, price in series.items()}
    chart = series_chart(shown, 4 * SLOT, "price", from_zero=False)
    (out / "spot-prices.svg").write_text(to_svg(chart))


def correlation_band(record: Floats, made: Sequence[Floats]) -> Band:
    lags = np.arange(1, 193)
    found = [autocorrelation([values], lags) for values in made if values.min() < values.max()]
    of_record = autocorrelation([record], lags)
    return Band("lag, hours", "correlation", *band_of(lags / 2, of_record, found))


def band_of(
    x: Floats, record: Floats, made: Sequence[Floats]
) -> tuple[list[float], list[float], list[float], list[float]]:
    low, high = np.quantile(np.stack(made), [0.1, 0.9], axis=0)
    return x.tolist(), record.tolist(), low.tolist(), high.tolist()


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
