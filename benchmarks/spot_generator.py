"""Goodness of fit of synthetic spot markets: tables in Markdown, and charts.

    python benchmarks/spot_generator.py FOLDER_OF_MARKET_FILES OUT

FOLDER holds the files of the benchmark market. The tables compare each figure of a record with the
mean and the middle 80% of 200 synthetic series of the same length. The model is fitted to the whole
record first; then to each half, and compared with the other half.
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
from auctune.numerics.goodness_of_fit import GoodnessOfFit, autocorrelation, compare
from auctune.sim.spot.generator import (
    CountParams,
    PriceParams,
    fit_counts,
    fit_prices,
    generate_counts,
    generate_prices,
)
from auctune.sim.spot.series_figures import count_figures, price_figures, run_lengths
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
Params = TypeVar("Params")


def main(folder: Path, out: Path) -> None:
    out.mkdir(parents=True, exist_ok=True)
    counts = read_counts(folder)
    prices = read_prices(folder)
    params = fit_counts([counts], CAP, SLOT)
    print(params, end="\n\n")
    print_rows("Counts, fitted to all 16 days", compare_counts([counts], params))
    print_halves("Counts", [counts], lambda part: fit_counts(part, CAP, SLOT), compare_counts)
    price_params = fit_prices(prices, SLOT)
    print(price_params, end="\n\n")
    print_rows("Prices, fitted to all 90 days", compare_prices(prices, price_params))
    print_halves("Prices", prices, lambda part: fit_prices(part, SLOT), compare_prices)
    draw_counts(counts, params, out)
    draw_prices(prices, price_params, out)


def read_counts(folder: Path) -> Ints:
    trace = read_trace(folder / COUNTS)
    return slot_counts(trace, 0.0, SLOT, whole_slots(trace, 0.0, SLOT))


def read_prices(folder: Path) -> list[Floats]:
    traces = [read_trace(path) for path in sorted(folder.glob(PRICES))]
    return [
        in_units(slot_prices(trace, 0.0, SLOT, whole_slots(trace, 0.0, SLOT)), ON_DEMAND_V100)
        for trace in traces
    ]


def compare_counts(records: list[Ints], params: CountParams) -> Sequence[GoodnessOfFit]:
    (record,) = records

    made = [generate_counts(params, len(record), seed, SLOT) for seed in range(RUNS)]
    return compare(count_figures(record, CAP), [count_figures(counts, CAP) for counts in made])


def compare_prices(records: list[Floats], params: PriceParams) -> Sequence[GoodnessOfFit]:
    """Compare the figures of zones, their means over zones, with those of synthetic zones."""
    each = [price_figures(price) for price in records]
    means = {name: float(np.mean([figures[name] for figures in each])) for name in each[0]}

    made = [generate_prices(params, len(records[0]), seed, SLOT) for seed in range(RUNS)]
    return compare(means, [price_figures(prices) for prices in made])


def print_halves(
    name: str,
    records: list[Series],
    fit: Callable[[list[Series]], Params],
    compare: Callable[[list[Series], Params], Sequence[GoodnessOfFit]],
) -> None:
    half = len(records[0]) // 2
    first, second = [r[:half] for r in records], [r[half:] for r in records]
    print_rows(f"{name}, fitted to the first half, against the second", compare(second, fit(first)))
    print_rows(f"{name}, fitted to the second half, against the first", compare(first, fit(second)))


def print_rows(title: str, rows: Sequence[GoodnessOfFit]) -> None:
    print(f"{title}: {sum(row.within for row in rows)} of {len(rows)} within\n")
    print("| figure | record | synthetic, mean | middle 80% | within |")
    print("| --- | --- | --- | --- | --- |")
    for row in rows:
        shown = f"{row.observed:.4g} | {row.mean:.4g} | {row.low:.4g} to {row.high:.4g}"
        print(f"| {row.figure} | {shown} | {'yes' if row.within else 'no'} |")
    print()


def draw_counts(record: Ints, params: CountParams, out: Path) -> None:
    synthetic = [generate_counts(params, len(record), seed, SLOT) for seed in range(RUNS)]
    series = {"recorded": record, "synthetic, seed 0": synthetic[0]}
    series |= {"seed 1": synthetic[1], "seed 2": synthetic[2]}
    shown = {name: counts.tolist() for name, counts in series.items()}
    (out / "spot-counts.svg").write_text(to_svg(series_chart(shown, SLOT, "GPUs")))
    lengths = np.unique(np.round(np.geomspace(1, 180, 30)))

    def shares(counts: Ints) -> Floats:
        """Return the share of empty slots that lie in runs of at least each length."""
        runs = run_lengths(counts == 0)
        total = max(int(runs.sum()), 1)
        return np.array([runs[runs >= length].sum() / total for length in lengths])

    runs = band_of(lengths / 2, shares(record), [shares(c) for c in synthetic])
    panels = [
        correlation_band(record.astype(float), [c.astype(float) for c in synthetic]),
        Band("hours", "share of empty slots in runs that long", *runs),
    ]
    (out / "spot-counts-likeness.svg").write_text(to_svg(goodness_of_fit_chart(panels)))


def draw_prices(records: list[Floats], params: PriceParams, out: Path) -> None:
    synthetic = [generate_prices(params, len(records[0]), seed, SLOT) for seed in range(RUNS)]
    series = {
        "recorded, us-east-2b": records[4],
        "recorded, us-west-2a": records[5],
        "synthetic, seed 0": synthetic[0],
        "seed 1": synthetic[1],
    }
    shown = {name: price[::4].tolist() for name, price in series.items()}
    chart = series_chart(shown, 4 * SLOT, "price", from_zero=False)
    (out / "spot-prices.svg").write_text(to_svg(chart))


def correlation_band(record: Floats, synthetic: Sequence[Floats]) -> Band:
    lags = np.arange(1, 193)
    varying = [values for values in synthetic if values.min() < values.max()]
    correlations = [autocorrelation([values], lags) for values in varying]
    recorded = autocorrelation([record], lags)
    return Band("lag, hours", "correlation", *band_of(lags / 2, recorded, correlations))


def band_of(
    x: Floats, record: Floats, synthetic: Sequence[Floats]
) -> tuple[list[float], list[float], list[float], list[float]]:
    low, high = np.quantile(np.stack(synthetic), [0.1, 0.9], axis=0)
    return x.tolist(), record.tolist(), low.tolist(), high.tolist()


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
