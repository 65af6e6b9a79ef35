"""One mechanism on one day, and the bound of a day: the jobs of most figures."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from hashlib import sha256
from importlib.metadata import entry_points
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Literal

import numpy as np
import polars as pl

from auctune.auction import Pdftsp
from auctune.auction.dual import lagrangian_bound
from auctune.auction.pricing import LearnedPricing
from auctune.domain import Node
from auctune.registry import mechanisms
from auctune.sim.bound import welfare_bound
from auctune.sim.comparison import Contender, build, parse_contenders
from auctune.sim.engine import SimulationResult, simulate, warm_up
from auctune.sim.metrics import measure
from harness.known_law import KnownLawForecast, known_law
from harness.market import Setting, block, draw

MECHANISMS = (
    "pdftsp",
    "pdftsp:pricing=exponential",
    "pdftsp:pricing=paper:search=printed:capacity=checked:payment=paper",
    "titan",
    "eft",
    "ntm",
)
LEARNED, PRINTED = MECHANISMS[0], MECHANISMS[2]
# Labels of learned prices that know the law of arrivals, or the day: its counts, or each bid.
LAW_KNOWN = "pdftsp, law of arrivals known"
ATTAINABLE = "pdftsp, counts of the day known"
FORESEEN = "pdftsp, bids of the day known"
NAMES: Mapping[str, str] = dict(
    zip(
        (*MECHANISMS, LAW_KNOWN, ATTAINABLE, FORESEEN),
        (
            *("pdFTSP, learned", "pdFTSP, exponential", "pdFTSP, as printed"),
            *("Titan", "EFT", "NTM", "pdFTSP, law known"),
            *("pdFTSP, counts known", "pdFTSP, bids known"),
        ),
        strict=True,
    )
)
# Exponential prices as somebody may set them by hand who knows what a sample is worth (2e-4).
_RANGES = {
    f"pdftsp:pricing=exponential:aggregate={aggregate}:compute_low={0.1 * scale * 2e-4:g}"
    f":compute_high={2 * scale * 2e-4:g}:memory_low=0.0001:memory_high=0.01": (
        f"pdFTSP, exponential, set by hand, {aggregate}, x {scale:g}"
    )
    for aggregate in ("max", "sum")
    for scale in (0.5, 1, 2)
}
HAND_SET = tuple(_RANGES)
SCHEMA: Mapping[str, Any] = {
    "figure": pl.String,
    "setting": pl.String,
    "seed": pl.Int64,
    "block": pl.Int64,
    "dispersion": pl.Float64,
    "contender": pl.String,
    "welfare": pl.Float64,
    "bound": pl.Float64,
    "bound_kind": pl.String,
    "bound_exact": pl.Boolean,
    "ratio": pl.Float64,
    "revenue": pl.Float64,
    "num_tasks": pl.Int64,
    "num_admitted": pl.Int64,
    "compute_used": pl.Float64,
    "decision_mean_s": pl.Float64,
    "decision_p50_s": pl.Float64,
    "decision_p99_s": pl.Float64,
    "learning_s": pl.Float64,
}
CODE = ("auctune.auction", "harness.market", "harness.known_law")
# Seeds of the days of a fluid benchmark: far from all others.
_FLUID = 2_000_000
_COSTS = {"titan": 12.0, "pdftsp": 8.0}


@dataclass(frozen=True, slots=True)
class Trial:
    """A mechanism, with the day before as its history if it learns, on the day of a seed.

    Attributes:
        setting: the market.
        seed: of its day.
        mechanism: as `auctune simulate --compare` takes it.
        knows: what its forecast knows beyond the day before: nothing; the "law" of arrivals; the
            day's "counts" of bids in each slot, of kinds as the hours around it bring; or its
            "bids", each of them.
    """

    setting: Setting
    seed: int
    mechanism: str
    knows: Literal["", "law", "counts", "bids"] = ""
    code = CODE

    @property
    def label(self) -> str:
        """As data name it."""
        known = {"law": LAW_KNOWN, "counts": ATTAINABLE, "bids": FORESEEN}
        return known.get(self.knows, self.mechanism)

    @property
    def cost(self) -> float:
        """Seconds, roughly."""
        return _COSTS.get(self.mechanism.split(":")[0], 1.0)

    def key(self) -> dict[str, object]:
        """The market, the seed and the mechanism."""
        source = _source_of(self.mechanism.split(":")[0])
        own = {"mechanism": self.mechanism, "source": source, "knows": self.knows}
        # The day before changes nothing for those that do not read it.
        market = self.setting.key() if self._learns else self.setting.market_key()
        return {**market, "seed": self.seed, **own}

    @property
    def _learns(self) -> bool:
        who = contender(self.mechanism)
        return mechanisms.learns(who.mechanism, who.settings)

    def run(self) -> Mapping[str, Any]:
        """Its figures."""
        day, who = draw(self.setting, self.seed), contender(self.mechanism)
        warm_up(day.market, lambda: build(who, day.market))
        mechanism = build(who, day.market, [day.before])
        if self.knows:
            assert isinstance(mechanism, Pdftsp)
            assert isinstance(mechanism.pricing, LearnedPricing)
            if self.knows == "law":
                law = known_law(self.setting)
                mechanism.pricing.know_law(KnownLawForecast(law, day.market.tasks))
            else:
                mechanism.pricing.know_day(day.market.tasks, which=self.knows == "bids")
        result = simulate(day.market, mechanism)
        report = measure(result)
        use = report.utilization.compute
        return {
            "welfare": report.welfare,
            "revenue": report.revenue,
            "num_tasks": report.num_tasks,
            "num_admitted": report.num_admitted,
            "compute_used": sum(use) / len(use),
            "decision_mean_s": _seconds_per_task(result, slot_at_once=mechanism.by_slot),
            "decision_p50_s": report.decision_seconds.p50,
            "decision_p99_s": report.decision_seconds.p99,
            "learning_s": report.learning_seconds,
        }


@dataclass(frozen=True, slots=True)
class BoundOf:
    """The bound on the welfare of a day.

    Attributes:
        setting: the market.
        seed: of its day.
        kind: "lp", or "milp" for small markets.
    """

    setting: Setting
    seed: int
    kind: str = "lp"
    code = CODE

    @property
    def cost(self) -> float:
        """Seconds, roughly."""
        kinds = dict(self.setting.workload).get("nodes", "").count(":")
        return 60.0 if kinds > 1 else 10.0

    def key(self) -> dict[str, object]:
        """The market, the seed and the kind."""
        return {**self.setting.market_key(), "seed": self.seed, "bound": self.kind}

    def run(self) -> Mapping[str, Any]:
        """The bound, and whether it is the optimum."""
        market = draw(self.setting, self.seed).market
        found = welfare_bound(self.kind, market)
        slots = [task.arrival for task in market.tasks]
        counts = np.bincount(slots, minlength=market.cluster.slots)
        return {
            "value": found.value,
            "kind": found.kind,
            "exact": found.exact,
            "dispersion": float(counts.var() / counts.mean()) if len(slots) else None,
        }


@dataclass(frozen=True, slots=True)
class FluidOf:
    """The fluid benchmark of a law: the bound, if each slot brought its mean number of each kind.

    No policy has more in the mean of days, whatever it knows: the bound is concave in demand, so
    that its value at the mean demand is no less than its mean (Jensen). The mean demand is that of
    many days, drawn apart from those that are played; by the same inequality fewer days give less.

    Attributes:
        setting: the market, without a job log: its law must be known.
        num_days: that the mean is taken over.
    """

    setting: Setting
    num_days: int = 8
    code = CODE

    @property
    def cost(self) -> float:
        """Seconds, roughly."""
        return 10.0 * self.num_days

    def key(self) -> dict[str, object]:
        """The market and the number of days."""
        return {**self.setting.market_key(), "fluid": self.num_days}

    def run(self) -> Mapping[str, Any]:
        """The bound of all days at once on as many clusters, over their number."""
        days = [draw(self.setting, _FLUID + day).market for day in range(self.num_days)]
        nodes = [
            Node(f"{n}-{node.id}", node.type)
            for n in range(self.num_days)
            for node in days[0].cluster.nodes
        ]
        tasks = [
            replace(task, id=f"{n}-{task.id}") for n, day in enumerate(days) for task in day.tasks
        ]
        pooled = replace(days[0].cluster, nodes=tuple(nodes))
        return {"value": lagrangian_bound(pooled, tasks).value / self.num_days}


def contender(label: str) -> Contender:
    """The mechanism of a label.

    Raises:
        InputError: as `parse_contenders`.
    """
    (found,) = parse_contenders(label)
    return found


def name_of(mechanism: str) -> str:
    """As figures show it."""
    return NAMES.get(mechanism) or _RANGES.get(mechanism, mechanism)


def to_frame(figure: str, trials: Sequence[Trial], results: Mapping[Any, Any]) -> pl.DataFrame:
    """A row a trial, beside its day's bound.

    Args:
        figure: its name.
        trials: in the order of the rows.
        results: of the trials, and of `BoundOf` by (setting, seed).
    """
    rows = []
    for trial in trials:
        bound, own = results[trial.setting, trial.seed], results[trial]
        rows.append(
            {
                "figure": figure,
                "setting": trial.setting.label,
                "seed": trial.seed,
                "block": block(trial.setting, trial.seed),
                "dispersion": bound["dispersion"],
                "contender": trial.label,
                **own,
                "bound": bound["value"],
                "bound_kind": bound["kind"],
                "bound_exact": bound["exact"],
                "ratio": own["welfare"] / bound["value"] if bound["value"] else None,
            }
        )
    return pl.DataFrame(rows, schema=dict(SCHEMA))


def _source_of(name: str) -> str | None:
    """A digest of the module of another package's mechanism; none for one of auctune's own."""
    for point in entry_points(group="auctune.mechanisms", name=name):
        spec = find_spec(point.module)
        if spec is not None and spec.origin is not None:
            return sha256(Path(spec.origin).read_bytes()).hexdigest()
    return None


def _seconds_per_task(result: SimulationResult, *, slot_at_once: bool) -> float:
    seconds = result.decision_seconds
    if not seconds:
        return 0.0
    if slot_at_once:
        # Each bid of a slot counts with the time of the whole slot.
        by_slot = {t.arrival: s for t, s in zip(result.tasks, seconds, strict=True)}
        return sum(by_slot.values()) / len(seconds)
    return sum(seconds) / len(seconds)
