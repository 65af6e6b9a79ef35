"""Stand-ins for the paper's training tasks, sized for one processor core, by name.

| name | in place of | data |
| --- | --- | --- |
| vit, lstm, cnn, resnet18, resnet34 | the same models on CIFAR-10 | scikit-learn's digits |
| dagger | DAgger with a CNN on Montezuma's Revenge | rooms with walls |
| audio | a transformer on Yesno | words made of glides |
| nlp | attention and LSTM on IMDB | made-up reviews |

The paper is Wang et al., "Learning with Adaptive Resource Allocation" (ICML 2024), Tables 1 and 2.
Batches have 64 samples, as there. Widths are such that a core does some hundred batches a second,
as the paper's device did of its models.

The tasks of the paper's tables on their own data, where the user has the files.

| kind | folder | model |
| --- | --- | --- |
| vit, lstm, cnn, resnet18, resnet34 | CIFAR-10 or MNIST | of usual width |
| nlp | IMDB | attention, LSTM, four full layers |
| audio | Yesno | a transformer |
| dagger | frames and actions of an expert | convolutions, three full layers |

Batches have 64 rows, or all that there are if those are fewer; Adam has the rate of the stand-in.
"""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import torch
from auctune.train.timeshare.files.frames import ACTIONS, read_frames
from auctune.train.timeshare.files.images import read_images
from auctune.train.timeshare.files.reviews import VOCABULARY, read_reviews
from auctune.train.timeshare.files.yesno import BANDS, FRAMES, read_yesno
from auctune.train.timeshare.made_up.dagger import DaggerSource
from auctune.train.timeshare.made_up.digits import Blur, digits
from auctune.train.timeshare.made_up.reviews import WORDS, reviews
from auctune.train.timeshare.made_up.sounds import sounds
from auctune.train.timeshare.models.cnn import CNN
from auctune.train.timeshare.models.lstm import LineReader
from auctune.train.timeshare.models.policy import GridPolicy
from auctune.train.timeshare.models.resnet import RESNET_18, RESNET_34, ResNet
from auctune.train.timeshare.models.text_reader import TextReader
from auctune.train.timeshare.models.transformer import SoundReader
from auctune.train.timeshare.models.vit import ViT
from torch import Tensor, nn
from torch.nn.functional import binary_cross_entropy_with_logits, cross_entropy

from auctune.domain.errors import InputError
from auctune.numerics.rng import stream
from auctune.train.timeshare.module_thread import ModuleThread, supervised
from auctune.train.timeshare.source import BatchSource, RowSource

BATCH_SIZE = 64


@dataclass(frozen=True)
class StandIn:
    """How a stand-in is made.

    Attributes:
        task: CV, RL, Audio or NLP.
        model: what is trained, in words.
        module: makes it; draws from torch's global generator.
        source: makes its batches from a seed.
        loss: of outputs and targets.
        learning_rate: of Adam, >0.
    """

    task: str
    model: str
    module: Callable[[], nn.Module]
    source: Callable[[int], BatchSource]
    loss: Callable[[Tensor, Tensor], Tensor]
    learning_rate: float


def _digits(seed: int) -> BatchSource:
    images, classes = digits()
    return RowSource(images, classes, batch_size=BATCH_SIZE, seed=seed, augment=Blur(0.4))


def _sounds(seed: int) -> BatchSource:
    return RowSource(*sounds(4096, seed), batch_size=BATCH_SIZE, seed=seed)


def _reviews(seed: int) -> BatchSource:
    return RowSource(*reviews(4096, seed), batch_size=BATCH_SIZE, seed=seed)


def _rooms(seed: int) -> BatchSource:
    return DaggerSource(batch_size=BATCH_SIZE, seed=seed)


def _text_reader() -> nn.Module:
    return TextReader(vocabulary=len(WORDS))


STAND_INS = {
    "vit": StandIn("CV", "ViT", ViT, _digits, cross_entropy, 1e-3),
    "lstm": StandIn("CV", "LSTM", LineReader, _digits, cross_entropy, 1e-3),
    "cnn": StandIn("CV", "CNN", CNN, _digits, cross_entropy, 1e-3),
    "resnet18": StandIn("CV", "ResNet-18", lambda: ResNet(RESNET_18), _digits, cross_entropy, 1e-3),
    "resnet34": StandIn("CV", "ResNet-34", lambda: ResNet(RESNET_34), _digits, cross_entropy, 1e-3),
    "dagger": StandIn("RL", "DAgger + CNN", GridPolicy, _rooms, cross_entropy, 1e-3),
    "audio": StandIn(
        "Audio", "Transformer", SoundReader, _sounds, binary_cross_entropy_with_logits, 1e-3
    ),
    "nlp": StandIn("NLP", "Attention + LSTM", _text_reader, _reviews, cross_entropy, 1e-3),
}


def make_stand_in(kind: str, seed: int, device: torch.device | str = "cpu") -> ModuleThread:
    """A new thread of a stand-in, the same for the same seed.

    Raises:
        InputError: if there is no such stand-in.
    """
    if kind not in STAND_INS:
        raise InputError("kind", repr(kind), f"one of {', '.join(STAND_INS)}")
    made = STAND_INS[kind]
    module = seeded(made.module, seed).to(device)
    optimizer = torch.optim.Adam(module.parameters(), lr=made.learning_rate)
    return ModuleThread(
        module, supervised(made.loss), made.source(seed), optimizer, seed=seed, device=device
    )


def seeded(make: Callable[[], nn.Module], seed: int) -> nn.Module:
    """A module whose first weights depend on the seed alone."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(int(stream(seed, "weights").integers(2**63)))
        return make()


def make_real(
    kind: str, folder: Path, seed: int, device: torch.device | str = "cpu"
) -> ModuleThread:
    """A new thread on a user's files, the same for the same seed.

    Args:
        kind: as of a stand-in.
        folder: of the files.
        seed: of all that is drawn.
        device: to train on.

    Raises:
        InputError: naming the folder or the file that is not as it should be.
    """
    inputs, targets = _READERS.get(kind, read_images)(folder)
    module = seeded(lambda: _module(kind, inputs), seed).to(device)
    made = STAND_INS[kind]
    optimizer = torch.optim.Adam(module.parameters(), lr=made.learning_rate)
    source = RowSource(
        inputs,
        targets,
        batch_size=min(BATCH_SIZE, len(inputs)),
        seed=seed,
        # All at once would take four times the room.
        augment=_Floats() if inputs.dtype == torch.uint8 else None,
    )
    return ModuleThread(module, supervised(made.loss), source, optimizer, seed=seed, device=device)


def _module(kind: str, inputs: Tensor) -> nn.Module:
    if kind == "nlp":
        return TextReader(vocabulary=VOCABULARY, width=128, heads=4)
    if kind == "audio":
        return SoundReader(frames=FRAMES, bands=BANDS, width=64, depth=2, heads=4)
    channels, size = inputs.shape[1], inputs.shape[2]
    if kind == "dagger":
        return GridPolicy(size=size, channels=channels, width=16, actions=ACTIONS)
    if kind == "vit":
        return ViT(size=size, channels=channels, patch=4, width=192, depth=6, heads=3)
    if kind == "lstm":
        return LineReader(line=channels * size, width=256)
    if kind == "cnn":
        return CNN(size=size, channels=channels, width=32)
    return ResNet(RESNET_18 if kind == "resnet18" else RESNET_34, channels=channels, width=64)


class _Floats:
    """Bytes as numbers of -1 to 1."""

    def __call__(self, images: Tensor, generator: torch.Generator) -> Tensor:
        return images.float() / 127.5 - 1.0


_READERS: dict[str, Callable[[Path], tuple[Tensor, Tensor]]] = {
    "nlp": read_reviews,
    "audio": read_yesno,
    "dagger": read_frames,
}
