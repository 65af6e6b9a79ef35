"""The tasks of the paper's tables on their own data, where the user has the files.

| kind | folder | model |
| --- | --- | --- |
| vit, lstm, cnn, resnet18, resnet34 | CIFAR-10 or MNIST | of usual width |
| nlp | IMDB | attention, LSTM, four full layers |
| audio | Yesno | a transformer |
| dagger | frames and actions of an expert | convolutions, three full layers |

Batches have 64 rows, or all that there are if those are fewer; Adam has the rate of the stand-in.
"""

from collections.abc import Callable
from pathlib import Path

import torch
from torch import Tensor, nn

from auctune.train.timeshare.files.frames import ACTIONS, read_frames
from auctune.train.timeshare.files.images import read_images
from auctune.train.timeshare.files.reviews import VOCABULARY, read_reviews
from auctune.train.timeshare.files.yesno import BANDS, FRAMES, read_yesno
from auctune.train.timeshare.models.cnn import CNN
from auctune.train.timeshare.models.lstm import LineReader
from auctune.train.timeshare.models.policy import GridPolicy
from auctune.train.timeshare.models.resnet import RESNET_18, RESNET_34, ResNet
from auctune.train.timeshare.models.text_reader import TextReader
from auctune.train.timeshare.models.transformer import SoundReader
from auctune.train.timeshare.models.vit import ViT
from auctune.train.timeshare.module_thread import ModuleThread, supervised
from auctune.train.timeshare.source import RowSource
from auctune.train.timeshare.stand_in import BATCH_SIZE, STAND_INS, seeded


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
