"""Time sharing: one round of prediction and allocation for many jobs ("threads" in LARA).

    python benchmarks/timeshare.py [--threads N ...] [--rounds R]

| what | how |
| --- | --- |
| round | `allocate` after exploration: learn the losses of a unit of time of all threads, predict needs, allocate shares; after compilation; median and minimum of R rounds |
| prediction | `observe` and `needs` of the estimators' banks only |
| limit | a lower bound: the required logarithms, exponentials and square roots per thread (WLS: 3, 2, 2; mixture: 6, 5, 1) at the rate of a bare loop, and K log2 K comparisons of a heap |

Losses are noisy power laws. The paper's figure is 0.7 ms for 100 threads (Fig. 6b).
"""  # noqa: E501

import argparse
import math
import time
from collections.abc import Callable
from functools import partial
from statistics import median

import numpy as np
from rich.console import Console
from rich.table import Table

from auctune.numerics.arrays import Floats
from auctune.numerics.jit import kernel
from auctune.numerics.rng import stream
from auctune.timeshare import (
    M4,
    Allocator,
    Exploration,
    LearningThread,
    Ls,
    Mixture,
    Observation,
    Rollout,
    Wls,
    lara,
)
from auctune.timeshare.estimators import Estimator

GOALS = {100: 0.07, 100_000: 200.0}
WARM_UP = 12
CALLS = {"lara": 7, "rollout": 9}


def make_threads(num_threads: int, num_rounds: int) -> list[LearningThread]:
    """Return threads that do not end within the measured rounds."""
    random = stream(0, "threads", num_threads)
    return [
        LearningThread(
            f"t{k}",
            0,
            num_rounds + int(random.integers(100, 100 * num_threads)),
            float(random.uniform(0.005, 0.02)),
        )
        for k in range(num_threads)
    ]


def make_rounds(num_threads: int, num_rounds: int) -> list[Observation]:
    """Return the observation of each unit; all threads train in all units."""
    random = stream(0, "rounds", num_threads)
    samples = np.zeros(num_threads)
    exponents, rate = random.uniform(0.2, 0.5, num_threads), np.full(num_threads, 200.0)
    fresh, done = np.ones(num_threads, dtype=np.bool_), np.zeros(num_threads, dtype=np.bool_)
    rounds = []
    for time_now in range(num_rounds):
        samples = samples + random.integers(20, 60, num_threads)
        noise = np.exp(0.05 * random.standard_normal(num_threads))
        loss = 3.0 * samples**-exponents * noise
        rounds.append(Observation(time_now, samples, rate, loss, fresh, done, samples / 200.0))
    return rounds


def milliseconds(actions: list[Callable[[], object]]) -> list[float]:
    """Return the duration of each action."""
    durations = []
    for action in actions:
        start = time.perf_counter()
        action()
        durations.append(1e3 * (time.perf_counter() - start))
    return durations


def time_allocator(allocator: Allocator, num_threads: int, num_rounds: int) -> list[float]:
    """Return milliseconds of each round."""
    rounds = make_rounds(num_threads, num_rounds + WARM_UP)
    run = allocator.start(make_threads(num_threads, len(rounds)))
    return milliseconds([partial(run.allocate, observation) for observation in rounds])[WARM_UP:]


def time_estimator(estimator: Estimator, num_threads: int, num_rounds: int) -> list[float]:
    """Return milliseconds of `observe` and `needs` of each round."""
    rounds = make_rounds(num_threads, num_rounds + WARM_UP)
    bank = estimator.start_bank(num_threads)
    thresholds = np.array([t.threshold for t in make_threads(num_threads, 1)])

    def update(observation: Observation) -> None:
        bank.observe(observation.samples, observation.loss, observation.fresh)
        bank.needs(thresholds)

    return milliseconds([partial(update, observation) for observation in rounds])[WARM_UP:]


@kernel
def many_calls(values: Floats, repeats: int) -> float:
    """Compute a logarithm and an exponential of each value, `repeats` times."""
    total = 0.0
    for _ in range(repeats):
        for value in values:
            total += math.log(value) + math.exp(-value)
    return total


def seconds_per_call() -> float:
    """Return seconds of a logarithm or an exponential."""
    values = np.linspace(0.1, 5.0, 1000)
    many_calls(values, 1)
    best = math.inf
    for _ in range(20):
        start = time.perf_counter()
        many_calls(values, 100)
        best = min(best, (time.perf_counter() - start) / (2 * 100 * len(values)))
    return best


def main() -> None:
    """Print measurements."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--threads", type=int, nargs="+", default=[100, 100_000])
    parser.add_argument("--rounds", type=int, default=300)
    options = parser.parse_args()
    call = seconds_per_call()
    table = Table(title=f"one round; {1e9 * call:.1f} ns per logarithm or exponential")
    for head in ("measurement", "threads", "median ms", "min ms", "limit ms", "goal ms"):
        table.add_column(head, justify="left" if head == "measurement" else "right")
    allocators: dict[str, Allocator] = {
        "lara": lara(Exploration(batches=0.0)),
        "rollout": Rollout(),
    }
    for num_threads in options.threads:
        num_rounds = max(10, min(options.rounds, 3_000_000 // num_threads))
        for name, allocator in allocators.items():
            durations = time_allocator(allocator, num_threads, num_rounds)
            heap = num_threads * math.log2(num_threads) * 1e-9
            limit = 1e3 * (CALLS[name] * num_threads * call + heap)
            goal = GOALS.get(num_threads)
            table.add_row(
                f"round of {name}",
                f"{num_threads:,}",
                f"{median(durations):.4f}",
                f"{min(durations):.4f}",
                f"{limit:.4f}",
                "" if goal is None else f"{goal:g}",
            )
        estimators: list[Estimator] = [Wls(), Ls(), Mixture()]
        if num_threads <= 1000:
            estimators.append(M4())
        for estimator in estimators:
            durations = time_estimator(estimator, num_threads, num_rounds)
            cells = (f"{median(durations):.4f}", f"{min(durations):.4f}", "", "")
            table.add_row(f"prediction by {estimator.name}", f"{num_threads:,}", *cells)
    Console().print(table)


if __name__ == "__main__":
    main()
