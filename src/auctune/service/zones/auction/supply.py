"""What a zone offers: its base, its devices as measured, and the units that it counts in."""

from collections.abc import Mapping
from dataclasses import dataclass

from auctune.device_profile import Profile
from auctune.domain import Cluster, Money, Quote, Task
from auctune.domain.data_size import DataSize
from auctune.service.jobs.device_limits import check_adapter, check_batch
from auctune.service.jobs.training import Training


@dataclass(frozen=True, slots=True)
class Supply:
    """The nodes of a zone.

    Attributes:
        base: name of the base model that all its nodes hold.
        base_digest: SHA-256 over its configuration and weights.
        context_tokens: longest row that the base reads; none: no limit.
        cluster: the first window of the market.
        profiles: by node type.
        sample_tokens: tokens of a sample.
    """

    base: str
    base_digest: str
    context_tokens: int | None
    cluster: Cluster
    profiles: Mapping[str, Profile]
    sample_tokens: float

    def task(
        self,
        job: str,
        training: Training,
        size: DataSize,
        *,
        bid: Money,
        arrival: int,
        deadline: int,
        quotes: tuple[Quote, ...] = (),
        owner: str | None = None,
        budget: Money | None = None,
    ) -> Task:
        """A job as the mechanism sees it.

        Args:
            arrival: the first slot in which it may run.
            deadline: the last one.
            quotes: vendors' offers, delays counted from `arrival`.
            owner: who bids.
            budget: what is left of the owner's budget; `None`: no limit.

        Raises:
            InputError: if no node can hold or run it, or a setting fits no device or its data.
        """
        check_batch(training, size)
        kinds = [self.cluster.node_types[node.type] for node in self.cluster.nodes]
        room = max(kind.memory_gb for kind in kinds) - self.cluster.base_memory_gb
        memory = max(check_adapter(training, one, room) for one in self.profiles.values())
        batch_tokens = max(1, round(training.batch_size * size.mean_tokens))
        return Task(
            id=job,
            arrival=arrival,
            deadline=deadline,
            work=size.samples(training.epochs, self.sample_tokens),
            memory_gb=memory,
            bid=bid,
            throughput={
                name: profile.throughput(
                    self.cluster.slot_seconds, self.sample_tokens, batch_tokens, training.share
                )
                for name, profile in self.profiles.items()
            },
            quotes=quotes,
            owner=owner,
            budget=budget,
        )
