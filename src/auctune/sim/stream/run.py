"""A market from a stream of bids to a stream of decisions, counted on the way.

What is held at any time is the mechanism, the bids of one slot, a batch of the reader and a part
of the writer; and 8 bytes for each decision, the seconds that it took.
"""

from collections.abc import Iterable
from typing import Protocol

from auctune.domain import Admission, Decision, Task
from auctune.sim.engine import Watch, play
from auctune.sim.instance import Instance
from auctune.sim.metrics import SimulationReport, report_of
from auctune.sim.outages import Change, Outages
from auctune.sim.tally import Tally


class Sink(Protocol):
    """Takes what was decided, in order."""

    def add(self, decision: Decision) -> None:
        """A decision was made."""
        ...

    def change(self, change: Change) -> None:
        """The plan of a task whose decision was taken before was changed."""
        ...


def run_stream(
    market: Instance,
    bids: Iterable[Task],
    mechanism: Admission,
    sink: Sink,
    *,
    outages: Outages | None = None,
    watch: Watch | None = None,
) -> SimulationReport:
    """Play a market and keep its figures alone.

    Args:
        market: the cluster and its accounts; its own tasks do not count.
        bids: by arrival.
        mechanism: a new one over the cluster.
        sink: where decisions go.
        outages: nodes that are lost and return.
        watch: called for each decision, in order, once its slot is over.
    """
    tally = Tally(market.cluster, market.real_energy_cost)
    learning = 0.0
    for played in play(bids, mechanism, outages=outages):
        learning += played.learning_seconds
        if outages is not None:
            tally.change_all(played.changes)
        for change in played.changes:
            sink.change(change)
        for task, (decision, seconds) in zip(played.tasks, played.answers, strict=True):
            tally.add(task, decision, seconds)
            sink.add(decision)
            if watch is not None:
                watch(task, decision)
    return report_of(tally, learning)
