"""Jobs of random size: those of Kong et al. (arXiv 2512.20967), Fig. 9, and their like.

Fig. 9 (its constants are reconstructed): L uniform in [60, 100], N_min in {1, 2, 4}, N_max in
{8, 12, 16}; as texts `workload=60-100`, `n_min=1,2,4` and `n_max=8,12,16`. Value goes with work.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import product

from auctune.domain import InputError
from auctune.domain.checks import check_positive
from auctune.numerics.rng import stream
from auctune.spot.job import SpotJob

# Sums of products of it stay numbers.
_MOST_WORK = 1e9

_FORMS = "workload=LOW-HIGH, n_min=A,B,... or n_max=A,B,..."


@dataclass(frozen=True, slots=True)
class Variation:
    """What differs from job to job.

    Attributes:
        workload: least and most, uniform between; none: the job's own.
        n_min, n_max: each as likely; none: the job's own.
    """

    workload: tuple[float, float] | None = None
    n_min: tuple[int, ...] = ()
    n_max: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        if self.workload is not None:
            check_positive(self.workload[0], "workload", "a number > 0")
            if not self.workload[0] <= self.workload[1]:
                low, high = self.workload
                raise InputError("workload", f"{low:g}-{high:g}", "the less before the more")
            if self.workload[1] > _MOST_WORK:
                raise InputError("workload", f"{self.workload[1]:g}", f"at most {_MOST_WORK:.0f}")

    def draw(self, job: SpotJob, num_jobs: int, seed: int) -> tuple[SpotJob, ...]:
        """Jobs like one, fewer being the first of more.

        Raises:
            InputError: if some counts do not go together, or not with the job's scaling.
        """
        counts = [*product(self.n_min or (job.n_min,), self.n_max or (job.n_max,))]
        for n_min, n_max in counts:
            replace(job, n_min=n_min, n_max=n_max)
        random = stream(seed, "jobs")
        drawn = []
        for _ in range(num_jobs):
            share, which = random.uniform(), int(random.integers(len(counts)))
            low, high = self.workload or (job.workload, job.workload)
            # Tenths, so that works lie on a grid.
            workload = round(low + share * (high - low), 1) if low < high else low
            n_min, n_max = counts[which]
            value = job.value * workload / job.workload
            drawn.append(replace(job, workload=workload, value=value, n_min=n_min, n_max=n_max))
        return tuple(drawn)


def parse_variation(texts: Sequence[str], place: str) -> Variation:
    """The variation of texts such as `n_min=1,2,4`.

    Args:
        texts: one for each key.
        place: as errors name it.

    Raises:
        InputError: naming the place and the key.
    """
    found: dict[str, tuple[float, float] | tuple[int, ...]] = {}
    for text in texts:
        key, _, values = text.partition("=")
        if key in found:
            raise InputError(f"{place} {text}", f"{key} is there twice", "each key once")
        try:
            if key == "workload":
                low, high = values.split("-")
                found[key] = (float(low), float(high))
            elif key in ("n_min", "n_max"):
                found[key] = tuple(int(value) for value in values.split(","))
            else:
                raise ValueError
        except ValueError:
            raise InputError(place, f"{text!r}", _FORMS) from None
    try:
        return Variation(**found)  # type: ignore[arg-type]
    except InputError as error:
        raise InputError(f"{place} {error.place}", error.found, error.expected) from None
