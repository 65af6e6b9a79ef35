"""What workers made of micro-batches, as messages have it: a column for each quantity."""

from collections.abc import Sequence

from auctune.engine.runtime.channel import Message
from auctune.train.data_parallel.batches import Contribution

COLUMNS = ("arrays", "losses", "hits", "num_targets", "num_tokens")
"""Keys of a message that have a value for each micro-batch, the fields of `Contribution` in order.
On a cluster its arrays, the gradients, are references."""


def contributions_record(contributions: Sequence[Contribution]) -> Message:
    """Return the columns of some micro-batches; rows that are only evaluated have no gradient."""
    return {
        "losses": [one.loss for one in contributions],
        "hits": [one.hits for one in contributions],
        "num_targets": [one.num_targets for one in contributions],
        "num_tokens": [one.num_tokens for one in contributions],
        "arrays": [one.gradient for one in contributions],
    }


def read_contributions(message: Message) -> list[Contribution]:
    """Return the micro-batches of a message."""
    columns = (message[name] for name in COLUMNS)
    return [Contribution(*values) for values in zip(*columns, strict=True)]
