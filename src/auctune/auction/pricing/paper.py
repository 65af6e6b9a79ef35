"""The paper's prices (Zheng et al., ICPP 2024, eqs. 7 and 8).

For each cell of the chosen schedule, with C the node's compute and m its memory beside the base:
 lam += lam * s / C + alpha * bbar * s / C
 phi += phi * r / m + beta * bbar * r / m
Prices start at 0 and never fall, and depend on the order in which tasks came.
"""

from auctune.auction.ledger import CapacityLedger
from auctune.auction.pricing.base import Pricing
from auctune.auction.search.problem import Request
from auctune.numerics.arrays import Ints


class PaperPricing(Pricing):
    """Prices that rise with each task that chooses a cell.

    Args:
        ledger: the cells.
        alpha, beta: >= 0. With both fixed in advance the auction is truthful; the paper's own
            choice, the greatest bid per sample and per GB of the whole instance, is not known in
            advance and contains the bid being priced.
    """

    def __init__(self, ledger: CapacityLedger, alpha: float, beta: float) -> None:
        super().__init__(ledger)
        self._alpha, self._beta = alpha, beta

    def on_selection(self, rows: Ints, nodes: Ints, request: Request, value: float) -> None:
        capacity = self._ledger.capacity
        types = capacity.type_of[nodes]
        samples = request.throughput[types]
        # Who takes a line of a menu may bid less than the vendor and the cells' running cost.
        density = max(value, 0.0) / float(samples.sum() + request.memory_gb * len(rows))
        compute = samples / capacity.compute[types]
        memory = request.memory_gb / capacity.memory[types]
        self.lam[rows, nodes] += (self.lam[rows, nodes] + self._alpha * density) * compute
        self.phi[rows, nodes] += (self.phi[rows, nodes] + self._beta * density) * memory
