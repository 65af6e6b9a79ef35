"""Time sharing: one round of prediction and allocation for many threads.

    python benchmarks/timeshare.py [--threads N ...] [--rounds R]

| what | how |
| --- | --- |
| round | `allocate` of a planner past its exploration: losses of a unit of time of all threads learned, needs predicted, shares made; kernels compiled before; median and least of R rounds |
| parts | the same for `observe` and `needs` of the estimators' banks alone |
| limit | the logarithms, exponentials and square roots that a thread's unit cannot do without (WLS: 3, 2, 2; mixture: 6, 5, 1) at the rate of a loop that does nothing else, and K log2 K comparisons of a heap |

Losses are noisy power laws. The paper's figure is 0.7 ms for 100 threads (Fig. 6b).
"""  # noqa: E501

import argparse
import math
import time
from collections.abc import Callable
from statistics import median

import numpy as np
from rich.console import Console
from rich.table import Table

from auctune.numerics.arrays import Floats
from auctune.numerics.jit import kernel
from auctune.numerics.rng import stream
from auctune.timeshare import (
    M4,
    Exploration,
    LearningThread,
    Ls,
    Mixture,
    Observation,
    Planner,
    Wls,
    headway,
    lara,
)
from auctune.timeshare.estimators import Estimator

GOALS = {100: 0.07, 100_000: 200.0}
WARM_UP = 12
CALLS = {"lara": 7, "headway": 12}


def make_threads(num_threads: int, num_rounds: int) -> list[LearningThread]:
    """Threads of which none ends while it is looked at."""
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
    """What is seen in each unit; all threads learn in all."""
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
    """How long each takes."""
    spent = []
    for action in actions:
        begun = time.perf_counter()
        action()
        spent.append(1e3 * (time.perf_counter() - begun))
    return spent


def time_planner(planner: Planner, num_threads: int, num_rounds: int) -> list[float]:
    """Milliseconds of each round."""
    rounds = make_rounds(num_threads, num_rounds + WARM_UP)
    run = planner.start(make_threads(num_threads, len(rounds)))
    spent = milliseconds([lambda seen=seen: run.allocate(seen) for seen in rounds])  # type: ignore[misc]
    return spent[WARM_UP:]


def time_estimator(estimator: Estimator, num_threads: int, num_rounds: int) -> list[float]:
    """Milliseconds of learning and forecaster_spec of each round."""
    rounds = make_rounds(num_threads, num_rounds + WARM_UP)
    bank = estimator.start_bank(num_threads)
    thresholds = np.array([t.threshold for t in make_threads(num_threads, 1)])

    def one(seen: Observation) -> None:
        bank.observe(seen.samples, seen.loss, seen.fresh)
        bank.needs(thresholds)

    spent = milliseconds([lambda seen=seen: one(seen) for seen in rounds])  # type: ignore[misc]
    return spent[WARM_UP:]


@kernel
def many_calls(values: Floats, repeats: int) -> float:
    """A logarithm and an exponential of each value, so often."""
    total = 0.0
    for _ in range(repeats):
        for value in values:
            total += math.log(value) + math.exp(-value)
    return total


def seconds_a_call() -> float:
    """Of a logarithm or an exponential."""
    values = np.linspace(0.1, 5.0, 1000)
    many_calls(values, 1)
    best = math.inf
    for _ in range(20):
        begun = time.perf_counter()
        many_calls(values, 100)
        best = min(best, (time.perf_counter() - begun) / (2 * 100 * len(values)))
    return best


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--threads", type=int, nargs="+", default=[100, 100_000])
    parser.add_argument("--rounds", type=int, default=300)
    given = parser.parse_args()
    call = seconds_a_call()
    table = Table(title=f"one round; {1e9 * call:.1f} ns a logarithm or exponential")
    for head in ("what", "threads", "median ms", "least ms", "limit ms", "goal ms"):
        table.add_column(head, justify="left" if head == "what" else "right")
    planners = {"lara": lara(Exploration(batches=0.0)), "headway": headway(Mixture())}
    for num_threads in given.threads:
        num_rounds = max(10, min(given.rounds, 3_000_000 // num_threads))
        for name, planner in planners.items():
            spent = time_planner(planner, num_threads, num_rounds)
            heap = num_threads * math.log2(num_threads) * 1e-9
            limit = 1e3 * (CALLS[name] * num_threads * call + heap)
            goal = GOALS.get(num_threads)
            table.add_row(
                f"round of {name}",
                f"{num_threads:,}",
                f"{median(spent):.4f}",
                f"{min(spent):.4f}",
                f"{limit:.4f}",
                "" if goal is None else f"{goal:g}",
            )
        estimators: list[Estimator] = [Wls(), Ls(), Mixture()]
        if num_threads <= 1000:
            estimators.append(M4())
        for estimator in estimators:
            spent = time_estimator(estimator, num_threads, num_rounds)
            cells = (f"{median(spent):.4f}", f"{min(spent):.4f}", "", "")
            table.add_row(f"prediction by {estimator.name}", f"{num_threads:,}", *cells)
    Console().print(table)


if __name__ == "__main__":
    main()
