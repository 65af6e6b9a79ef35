"""Write jobs.csv and prices.csv, three days each: `python examples/workloads/make_data.py`.

Both are synthetic. Jobs arrive in bursts and waves as in real logs; prices are negative at noon.
"""

from pathlib import Path

import numpy as np

from auctune.numerics.rng import stream
from auctune.sim.workloads.arrivals import PHILLY_2017

HERE = Path(__file__).parent
DAYS = 3


def make_jobs() -> list[str]:
    rng = stream(5, "jobs")
    times = PHILLY_2017.scaled(0.15).times(DAYS * 86_400, rng)
    gpus = rng.choice([1, 1, 1, 2, 4, 8], len(times))
    seconds = np.maximum(1, rng.lognormal(7.0, 1.6, len(times))).astype(int)
    team = rng.integers(1, 9, len(times))
    rows = zip(times.astype(int), gpus, seconds, team, strict=True)
    return ["submit_s,gpus,duration_s,user", *(f"{t},{g},{s},team{u}" for t, g, s, u in rows)]


def make_prices() -> list[str]:
    hours = np.arange(24 * DAYS)
    swing = 45 - 38 * np.cos(2 * np.pi * (hours - 4) / 24)
    sun = 75 * np.exp(-(((hours % 24 - 13) / 3) ** 2))
    prices = swing - sun + stream(5, "prices").normal(0, 6, len(hours))
    rows = zip(hours * 3600, prices, strict=True)
    return ["t_s,price_usd_per_mwh", *(f"{t},{price:.2f}" for t, price in rows)]


if __name__ == "__main__":
    for name, lines in (("jobs", make_jobs()), ("prices", make_prices())):
        (HERE / f"{name}.csv").write_text("\n".join(lines) + "\n", encoding="utf-8")
