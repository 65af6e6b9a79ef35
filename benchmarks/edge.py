"""The edge: time per decision, gap of the plan search, and welfare.

    python benchmarks/edge.py [--only speed,gap,welfare,optimum] [--seeds N] [--first-seed N]
                              [--time-limit S]

| what | how |
| --- | --- |
| speed | every bid of the simulated setting (50 sites, 150 slots, 100 jobs) with 500 chunks each, after compilation; and with all jobs in the first 20 slots, which fills the market |
| gap | surplus of the search's plan, and of that with Algorithm 3 as printed, against the optimum of problem (7) as an integer program, on small markets with reserved capacity: 2 to 4 sites, 4 to 6 slots, up to 14 chunks |
| welfare | both settings and all mechanisms, Algorithm 3 as printed on the testbed, baselines with 8 to 64 workers; sums over the seeds, as shares of the linear bound |
| optimum | testbed: the bound that HiGHS proves within the time limit, over the welfare |
"""  # noqa: E501

import argparse
import statistics
import time
from collections.abc import Sequence

import numpy as np
from rich.console import Console
from rich.table import Table

from auctune.edge import (
    ByDuration,
    EdgeJob,
    EdgeLedger,
    EdgeMarket,
    Logistic,
    PaperPrices,
    SharePrices,
    Site,
    best_plan,
)
from auctune.edge.search import offers
from auctune.numerics.rng import stream
from auctune.registry.policies import EDGE_ENTRIES
from auctune.sim.edge.comparison import bound_of, play
from auctune.sim.edge.instance_file import EdgeInstance
from auctune.sim.edge.settings import EdgeSetting, make_instance, paper_testbed

P50_GOAL, RATIO_GOAL = 50e-3, 1.15
ERIS = ("eris", "eris:worth=2250", "eris:pricing=paper")
PRINTED = ("eris:search=printed", "eris:pricing=paper:search=printed")
BASELINES = (
    *(
        f"{name}:workers={count}{more}"
        for name, more in (("tiresias", ""), ("tiresias", ":by=remaining"), ("antman", ""))
        for count in (8, 16, 32, 64)
    ),
    *(
        f"liquid:weight={weight}:most_workers={count}"
        for weight in (0, 0.1, 0.5)
        for count in (16, 32, 64)
    ),
)
NUM_CASES = 1000
PARTS = ("speed", "gap", "welfare", "optimum")


def speed_table(_seeds: range, _limit: float) -> Table:
    table = Table("mechanism", "jobs arrive in", "p50 ms", "p99 ms", "max ms", title="Speed")
    for slots in (150, 20):
        instance = make_instance(EdgeSetting(chunks=500, arrival_slots=slots))
        for label in ERIS:
            play(label, EDGE_ENTRIES.parse(label, "mechanism"), instance)
            seconds = play(label, EDGE_ENTRIES.parse(label, "mechanism"), instance).seconds
            p50, p99 = np.quantile(seconds, (0.5, 0.99)) * 1e3
            table.add_row(
                label, f"{slots} slots", f"{p50:.1f}", f"{p99:.1f}", f"{max(seconds) * 1e3:.1f}"
            )
    table.add_row("goal", "", f"<= {P50_GOAL * 1e3:.0f}", "", "")
    return table


def small_case(seed: int) -> tuple[EdgeLedger, EdgeJob]:
    """Return the ledger of a small market with reserved capacity, and a job."""
    random = stream(seed, "benchmark of the edge")
    sites = tuple(
        Site(
            f"s{index}", {"gpu": float(random.integers(0, 5)), "cpu": float(random.integers(2, 13))}
        )
        for index in range(int(random.integers(2, 5)))
    )
    base = dict.fromkeys(("data", "gpu", "cpu"), float(random.choice([2.0, 10.0, 1000.0])))
    market = EdgeMarket(
        int(random.integers(4, 7)), sites, float(random.integers(5, 60)),
        float(random.choice([0.0, 0.5, 2.0])), base,
    )  # fmt: skip
    ledger, held = EdgeLedger(market), float(random.choice([0.0, 0.5, 0.9]))
    ledger.used[...] = np.floor(ledger.capacity * random.uniform(0, held, ledger.used.shape))
    ledger.traffic[...] = random.uniform(0, held, market.slots) * market.traffic_mb_per_slot * 0.6
    counts = random.multinomial(int(random.integers(1, 15)), random.dirichlet(np.ones(len(sites))))
    epochs = int(random.integers(1, 5))
    table = tuple(sorted(random.uniform(0, 200, 5).tolist(), reverse=True))
    logistic = Logistic(float(random.integers(5, 400)), float(random.integers(1, 5)))
    job = EdgeJob(
        id="job",
        arrival=0,
        epochs=epochs,
        chunks={site.id: int(n) for site, n in zip(sites, counts, strict=True) if n},
        worker={"gpu": float(random.integers(0, 2)), "cpu": float(random.integers(1, 4))},
        server={"gpu": float(random.integers(0, 2)), "cpu": float(random.integers(0, 3))},
        chunks_per_worker_slot=epochs * float(random.choice([0.4, 1.0, 1.5, 2.0, 3.0])),
        parameter_mb=float(random.choice([0.0, 1.0, 3.0, 8.0])),
        utility=logistic if random.random() < 0.7 else ByDuration(table),
    )
    return ledger, job


def gap_table(_seeds: range, _limit: float) -> Table:
    table = Table(
        "prices", "Algorithm 3", "cases with a gain", "exact", "of all gains lost", "mean gap",
        "p99", "largest",
        title=f"Gap of the search to problem (7), {NUM_CASES} small markets each",
    )  # fmt: skip
    for name, pricing in (("paper", PaperPrices()), ("share", SharePrices(1.0, 20.0))):
        surpluses: dict[bool, list[float]] = {False: [], True: []}
        optima = []
        for seed in range(NUM_CASES):
            ledger, job = small_case(seed)
            optimum = best_plan(ledger, pricing, job).surplus
            if optimum <= 1e-6:
                continue
            optima.append(optimum)
            for printed, found in surpluses.items():
                plans = offers(ledger, pricing, job, job.arrival, printed=printed)
                found.append(
                    max((job.value(plan.finish) - plan.cost for plan in plans), default=0.0)
                )
        for printed, found in surpluses.items():
            gained = np.maximum(found, 0.0)
            gap = np.maximum(1 - gained / np.array(optima), 0.0)
            table.add_row(
                name,
                "as printed" if printed else "mended",
                f"{len(gap)}",
                f"{(gap < 1e-6).mean():.1%}",
                f"{1 - gained.sum() / sum(optima):.3%}",
                f"{gap.mean():.3%}",
                f"{np.quantile(gap, 0.99):.2%}",
                f"{gap.max():.1%}",
            )
    return table


def instances(setting: str, seeds: range) -> list[EdgeInstance]:
    """Return instances of a setting for some seeds."""
    if setting == "testbed":
        return [make_instance(paper_testbed(seed=seed)) for seed in seeds]
    return [make_instance(EdgeSetting(seed=seed)) for seed in seeds]


def welfare_of(label: str, played: Sequence[EdgeInstance]) -> list[float]:
    return [
        play(label, EDGE_ENTRIES.parse(label, "mechanism"), instance).welfare for instance in played
    ]


def welfare_table(seeds: range, limit: float) -> Table:
    table = Table(
        "mechanism", "testbed", "simulation", title=f"Welfare over the bound, {len(seeds)} seeds"
    )
    shares: dict[str, list[str]] = {label: [] for label in (*ERIS, *PRINTED, *BASELINES)}
    for setting in ("testbed", "simulation"):
        played = instances(setting, seeds)
        bounds = [bound_of(instance, "lp", limit) for instance in played]
        total = sum(bound.value for bound in bounds if bound)
        for label, cells in shares.items():
            if setting == "simulation" and label in PRINTED:
                # It goes through all pairs of sites for every number of chunks: slow with fifty.
                cells.append("-")
                continue
            cells.append(f"{sum(welfare_of(label, played)) / total:.3f}")
    for label, cells in shares.items():
        table.add_row(label, *cells)
    return table


def optimum_table(seeds: range, limit: float) -> Table:
    table = Table(
        "seed", "bound", "proven", *ERIS, title=f"Testbed: bound / welfare, HiGHS for {limit:.0f} s"
    )
    played = instances("testbed", seeds)
    welfare = {label: welfare_of(label, played) for label in ERIS}
    bounds = []
    for index, (seed, instance) in enumerate(zip(seeds, played, strict=True)):
        bound = bound_of(instance, "milp", limit)
        assert bound is not None
        bounds.append(bound.value)
        ratios = (f"{bound.value / welfare[label][index]:.3f}" for label in ERIS)
        table.add_row(f"{seed}", f"{bound.value:,.0f}", "yes" if bound.optimal else "", *ratios)
    table.add_section()
    sums = (f"{sum(bounds) / sum(welfare[label]):.3f}" for label in ERIS)
    table.add_row("sums", f"{sum(bounds):,.0f}", "", *sums)
    medians = (
        f"{statistics.median(b / w for b, w in zip(bounds, welfare[label], strict=True)):.3f}"
        for label in ERIS
    )
    table.add_row("median", "", "", *medians)
    table.add_row("goal", "", "", *(f"<= {RATIO_GOAL}" for _ in ERIS))
    return table


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--only", default=",".join(PARTS), help="parts (%(default)s)")
    parser.add_argument("--seeds", type=int, default=10, help="of each setting (%(default)s)")
    parser.add_argument("--first-seed", type=int, default=0, help="(%(default)s)")
    parser.add_argument("--time-limit", type=float, default=60.0, help="seconds (%(default)s)")
    options = parser.parse_args()
    tables = dict(zip(PARTS, (speed_table, gap_table, welfare_table, optimum_table), strict=True))
    console, parts = Console(), options.only.split(",")
    if unknown := set(parts) - set(PARTS):
        parser.error(f"--only: {', '.join(sorted(unknown))}; expected some of {', '.join(PARTS)}")
    for part in parts:
        start = time.perf_counter()
        seeds = range(options.first_seed, options.first_seed + options.seeds)
        console.print(tables[part](seeds, options.time_limit))
        console.print(f"in {time.perf_counter() - start:.0f} s")


if __name__ == "__main__":
    main()
