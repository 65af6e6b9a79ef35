"""How a job trains: its model, its data and its steps."""

from dataclasses import dataclass

from auctune.domain import InputError
from auctune.domain.checks import check_finite, check_positive

SPLITS = ("shuffled", "by_label")


@dataclass(frozen=True, slots=True, kw_only=True)
class Recipe:
    """What is trained, and by which steps.

    Attributes:
        data: "digits", or the format of a folder: "cifar10", "caltech101" or "tiny-imagenet".
        folder: where that is; empty for digits.
        image_size: pixels of an image's side, to which those of a folder are scaled.
        model: "small", "lenet" or "residual".
        split: how samples are dealt out to chunks: "shuffled", or "by_label", by which sites hold
            different classes.
        global_batch: samples of a step, a multiple of `micro_batch`.
        micro_batch: samples whose gradient is computed at once; all of one chunk.
        learning_rate, momentum, weight_decay: of gradient descent.
        seed: of the first weights and all orders.
    """

    data: str = "digits"
    folder: str = ""
    image_size: int = 32
    model: str = "small"
    split: str = "shuffled"
    global_batch: int = 64
    micro_batch: int = 16
    learning_rate: float = 0.05
    momentum: float = 0.9
    weight_decay: float = 0.0
    seed: int = 0

    def __post_init__(self) -> None:
        if self.split not in SPLITS:
            raise InputError("split", f"{self.split!r}", " or ".join(SPLITS))
        if self.micro_batch < 1:
            raise InputError("micro_batch", f"{self.micro_batch!r}", "samples >= 1")
        if self.global_batch < 1 or self.global_batch % self.micro_batch:
            raise InputError(
                "global_batch", f"{self.global_batch!r}", f"a multiple of {self.micro_batch}"
            )
        if not 8 <= self.image_size <= 512:
            raise InputError("image_size", f"{self.image_size!r}", "8 to 512 pixels")
        if (self.data == "digits") != (self.folder == ""):
            raise InputError("folder", f"{self.folder!r}", f"what goes with data {self.data!r}")
        check_positive(self.learning_rate, "learning_rate", "a number > 0")
        check_finite(self.weight_decay, "weight_decay", "a number >= 0")
        if not 0 <= self.momentum < 1:
            raise InputError("momentum", f"{self.momentum!r}", "a number from 0 to below 1")
        if self.seed < 0:
            raise InputError("seed", f"{self.seed!r}", "a whole number >= 0")
