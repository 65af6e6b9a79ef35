"""Made-up loss curves and bundles on them, by seed."""

import numpy as np

from auctune.timeshare import LearningThread, LossCurve

KINDS = ("power", "plateau", "break", "floor")


def made_up_curve(seed: int, num_batches: int = 3000, width: int = 5) -> LossCurve:
    """A noisy power law; one that stands still for a while, breaks, or has a floor."""
    random = np.random.default_rng([seed, 81])
    kind = KINDS[seed % len(KINDS)]
    at = np.arange(1, num_batches + 1, dtype=np.float64)
    a, b = random.uniform(1.5, 4.0), random.uniform(0.2, 0.8)
    loss = a * at**-b
    middle = num_batches * random.uniform(0.2, 0.5)
    if kind == "plateau":
        loss = np.where(at < middle, loss, np.maximum(loss, a * middle**-b))
    elif kind == "break":
        loss *= np.where(at < middle, 1.0, (at / middle) ** -0.5)
    elif kind == "floor":
        loss += random.uniform(0.02, 0.2)
    loss *= np.exp(0.1 * random.standard_normal(num_batches))
    ends = np.arange(width, num_batches + 1, width)
    return LossCurve(ends.astype(np.float64), loss[: ends[-1]].reshape(-1, width).mean(axis=1))


def made_up_bundle(
    seed: int, num_threads: int, starts: int = 0
) -> tuple[list[LearningThread], list[LossCurve], list[float]]:
    """Threads, their curves and their N; some of them out of reach."""
    random = np.random.default_rng([seed, 82])
    threads, curves, rates = [], [], []
    for k in range(num_threads):
        curve = made_up_curve(int(random.integers(1000)))
        start = int(random.integers(0, starts + 1))
        threshold = float(curve.loss[int(random.integers(5, len(curve.loss)))])
        deadline = start + int(random.integers(5, 12 * num_threads))
        if random.random() < 0.2:
            threshold *= 0.3
        threads.append(LearningThread(f"t{k}", start, deadline, threshold))
        curves.append(curve)
        rates.append(float(random.integers(20, 200)))
    return threads, curves, rates
