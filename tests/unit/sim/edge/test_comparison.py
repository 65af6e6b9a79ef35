"""Mechanisms of the edge side by side: labels, figures, bounds."""

import pytest

from auctune.domain import InputError
from auctune.edge import Eris, ErisEntry, ErisParams, Tiresias
from auctune.registry.policies import EDGE_ENTRIES
from auctune.sim.edge.comparison import (
    DEFAULT_ENTRIES,
    bound_of,
    play,
    report,
    use_by_slot,
)
from auctune.sim.edge.settings import make_instance, paper_testbed

INSTANCE = make_instance(paper_testbed(num_sites=4, num_jobs=5, slots=20, arrival_slots=8))


def test_labels_are_read_with_their_settings() -> None:
    assert EDGE_ENTRIES.parse("eris:pricing=paper", "--mechanism") == ErisEntry(ErisParams("paper"))
    assert EDGE_ENTRIES.parse("tiresias:workers=4", "--mechanism") == Tiresias(workers=4)
    with pytest.raises(InputError, match="--mechanism: 'slurm' is not offered"):
        EDGE_ENTRIES.parse("slurm", "--mechanism")
    with pytest.raises(InputError, match="--mechanism eris:rise=0: rise"):
        EDGE_ENTRIES.parse("eris:rise=0", "--mechanism")


def test_figures_are_those_of_the_decisions() -> None:
    ticks = iter(range(100))
    played = play("eris", ErisEntry(), INSTANCE, clock=lambda: float(next(ticks)))
    eris = Eris(INSTANCE.market)
    decisions = [eris.offer(job, job.arrival) for job in INSTANCE.in_order()]
    assert played.decisions == tuple(decisions)
    figures = report(INSTANCE, played, bound_of(INSTANCE, "lp", 1.0))
    assert figures["welfare"] == sum(d.utility or 0 for d in decisions)
    assert figures["profit"] == float(sum(d.payment for d in decisions))
    assert figures["num_admitted"] == sum(d.admitted for d in decisions)
    assert figures["decision_seconds"] == {"p50": 1, "p99": 1, "max": 1}
    assert 0 < figures["bound"]["ratio"] <= 1


def test_shares_sold_are_those_of_the_ledger() -> None:
    played = play("eris", ErisEntry(), INSTANCE)
    eris = Eris(INSTANCE.market)
    for job in INSTANCE.in_order():
        eris.offer(job, job.arrival)
    use = use_by_slot(INSTANCE, played.decisions)
    assert list(use) == ["gpu", "cpu", "ram_gb", "data"]
    capacity = eris.ledger.capacity.sum(axis=0)
    for index, kind in enumerate(("gpu", "cpu", "ram_gb")):
        sold = eris.ledger.used[:, :, index].sum(axis=1) / capacity[index]
        assert use[kind].tolist() == pytest.approx(sold.tolist())
    assert max(use["data"]) <= 1


def test_all_that_are_compared_by_default_stay_below_the_bounds() -> None:
    small = make_instance(paper_testbed(num_sites=4, num_jobs=3, slots=12, arrival_slots=4))
    linear, whole = (bound_of(small, kind, 1.0) for kind in ("lp", "milp"))
    assert linear is not None
    assert whole is not None
    assert whole.reached is not None
    assert whole.reached <= whole.value <= linear.value + 1e-6
    for label in DEFAULT_ENTRIES:
        assert (
            play(label, EDGE_ENTRIES.parse(label, "--mechanism"), small).welfare
            <= whole.value + 1e-6
        )
    assert bound_of(small, "none", 1.0) is None
