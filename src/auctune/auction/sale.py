"""Selling cells for what was bid, without a price: as the baselines and the optimum do."""

from auctune.auction.book import Book, Ints
from auctune.domain import Decision, Quote, Schedule, Task


def sell_for_bid(book: Book, task: Task, quote: Quote | None, slots: Ints, nodes: Ints) -> Decision:
    """Book these cells for `task`, which pays its bid.

    Args:
        book: the cells, with room.
        task: the task.
        quote: of the vendor that it takes.
        slots, nodes: its cells in slot order, rows of the book and indices.
    """
    throughput = book.throughput(task)
    book.take(slots, nodes, throughput, task.memory_gb)
    types = book.capacity.type_of[nodes]
    operating = book.operating_cost(task, throughput)[types, slots]
    vendor_price = 0.0 if quote is None else float(quote.price)
    value = float(task.bid) - vendor_price - float(sum(operating.tolist()))
    return Decision(
        task.id,
        admitted=True,
        payment=task.bid,
        schedule=Schedule(book.cells(slots, nodes), None if quote is None else quote.vendor),
        value=value,
        surplus=value,
    )
