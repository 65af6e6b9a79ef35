"""What a job is to train, with all that was left to us filled in."""

from dataclasses import asdict, dataclass
from typing import Any, Literal

from auctune.domain.dataset import DEFAULT_MAX_LENGTH

RateSchedule = Literal["constant", "linear", "cosine"]


@dataclass(frozen=True, slots=True)
class Training:
    """Settings of one adapter's training; those of auctune.train.job.LoraJob.

    Attributes:
        data, validation: ids of files; no validation: none.
        truncate: whether more rows than usual may lose their ends to `max_length`.
        share: of a node's compute that it takes at most, in (0, 1].
        repair: whether vendors may repair the data.
    """

    data: str
    validation: str | None = None
    epochs: int = 1
    rank: int = 8
    alpha: float = 16.0
    dropout: float = 0.0
    target_modules: tuple[str, ...] = ()
    learning_rate: float = 1e-3
    weight_decay: float = 0.0
    schedule: RateSchedule = "linear"
    warmup_steps: int = 0
    batch_size: int = 8
    max_length: int = DEFAULT_MAX_LENGTH
    truncate: bool = False
    max_grad_norm: float = 1.0
    seed: int = 0
    patience: int = 0
    share: float = 0.25
    repair: bool = False

    def to_record(self) -> dict[str, Any]:
        """As plain values."""
        return {name: getattr(self, name) for name in self.__slots__}

    @classmethod
    def from_record(cls, record: dict[str, Any]) -> "Training":
        """What `to_record` gave."""
        return cls(**{**record, "target_modules": tuple(record["target_modules"])})

    def settings(self) -> dict[str, Any]:
        """Those that the trainer itself takes, without files."""
        own = ("data", "validation", "truncate", "share", "repair")
        return {name: value for name, value in asdict(self).items() if name not in own}
