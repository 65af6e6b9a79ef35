"""The paper's training tasks by name, on synthetic data or on the published data sets.

| name | synthetic, for one processor core | with `data`: a folder of |
| --- | --- | --- |
| vit, lstm, cnn, resnet18, resnet34 | small models on scikit-learn's digits | CIFAR-10 or MNIST |
| dagger | a CNN on rooms with walls | frames and an expert's actions |
| audio | a transformer on words made of glides | Yesno |
| nlp | attention and LSTM on reviews of drawn words | IMDB |

Batches have 64 samples, as in the paper, or all rows of a smaller data set. Models for synthetic
data are sized such that a core trains some hundred batches a second, as the paper's device did.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import torch
from torch import Tensor, nn
from torch.nn.functional import binary_cross_entropy_with_logits, cross_entropy

from auctune.domain.errors import InputError
from auctune.numerics.rng import stream
from lara_tasks import datasets
from lara_tasks.models import (
    CNN,
    RESNET_18,
    RESNET_34,
    AttentionLSTMClassifier,
    AudioTransformer,
    GridPolicy,
    ResNet,
    RowLSTM,
    ViT,
)
from lara_tasks.module_job import BatchSource, ModuleJob, RowSource, supervised
from lara_tasks.synthetic import WORDS, Blur, DaggerSource, digits, reviews, sounds

BATCH_SIZE = 64


@dataclass(frozen=True)
class Task:
    """A training task.

    Attributes:
        area: CV, RL, Audio or NLP.
        model: name of the model.
        module: creates the model for synthetic data, by torch's global generator.
        source: creates synthetic batches from a seed.
        read: reads the published data set in a folder: inputs and targets.
        full_module: creates the model for the inputs of a published data set.
        loss: of outputs and targets.
        learning_rate: of Adam, > 0.
    """

    area: str
    model: str
    module: Callable[[], nn.Module]
    source: Callable[[int], BatchSource]
    read: Callable[[Path], tuple[Tensor, Tensor]]
    full_module: Callable[[Tensor], nn.Module]
    loss: Callable[[Tensor, Tensor], Tensor] = cross_entropy
    learning_rate: float = 1e-3


def _digits(seed: int) -> BatchSource:
    images, classes = digits()
    return RowSource(images, classes, batch_size=BATCH_SIZE, seed=seed, augment=Blur(0.4))


def _sounds(seed: int) -> BatchSource:
    return RowSource(*sounds(4096, seed), batch_size=BATCH_SIZE, seed=seed)


def _reviews(seed: int) -> BatchSource:
    return RowSource(*reviews(4096, seed), batch_size=BATCH_SIZE, seed=seed)


def _rooms(seed: int) -> BatchSource:
    return DaggerSource(batch_size=BATCH_SIZE, seed=seed)


def _full_vit(images: Tensor) -> nn.Module:
    channels, size = images.shape[1:3]
    return ViT(size=size, channels=channels, patch=4, width=192, depth=6, heads=3)


def _full_lstm(images: Tensor) -> nn.Module:
    return RowLSTM(line=images.shape[1] * images.shape[2], width=256)


def _full_cnn(images: Tensor) -> nn.Module:
    return CNN(size=images.shape[2], channels=images.shape[1], width=32)


def _full_resnet(blocks: tuple[int, ...], images: Tensor) -> nn.Module:
    return ResNet(blocks, channels=images.shape[1], width=64)


def _full_policy(frames: Tensor) -> nn.Module:
    channels, size = frames.shape[1:3]
    return GridPolicy(size=size, channels=channels, width=16, actions=datasets.ACTIONS)


def _full_audio(_: Tensor) -> nn.Module:
    return AudioTransformer(
        frames=datasets.FRAMES, bands=datasets.BANDS, width=64, depth=2, heads=4
    )


def _full_text(_: Tensor) -> nn.Module:
    return AttentionLSTMClassifier(vocabulary=datasets.VOCABULARY, width=128, heads=4)


def _image_task(
    model: str, module: Callable[[], nn.Module], full_module: Callable[[Tensor], nn.Module]
) -> Task:
    return Task("CV", model, module, _digits, datasets.read_images, full_module)


TASKS = {
    "vit": _image_task("ViT", ViT, _full_vit),
    "lstm": _image_task("LSTM", RowLSTM, _full_lstm),
    "cnn": _image_task("CNN", CNN, _full_cnn),
    "resnet18": _image_task(
        "ResNet-18", partial(ResNet, RESNET_18), partial(_full_resnet, RESNET_18)
    ),
    "resnet34": _image_task(
        "ResNet-34", partial(ResNet, RESNET_34), partial(_full_resnet, RESNET_34)
    ),
    "dagger": Task("RL", "DAgger + CNN", GridPolicy, _rooms, datasets.read_frames, _full_policy),
    "audio": Task(
        "Audio",
        "Transformer",
        AudioTransformer,
        _sounds,
        datasets.read_yesno,
        _full_audio,
        binary_cross_entropy_with_logits,
    ),
    "nlp": Task(
        "NLP",
        "Attention + LSTM",
        partial(AttentionLSTMClassifier, vocabulary=len(WORDS)),
        _reviews,
        datasets.read_reviews,
        _full_text,
    ),
}


def make_task(
    name: str, seed: int, device: torch.device | str = "cpu", data: str | None = None
) -> ModuleJob:
    """Return a new job of a task, the same for the same seed.

    Args:
        name: one of `TASKS`.
        seed: of weights, data and order.
        device: to train on.
        data: folder of the published data set; synthetic data without.

    Raises:
        InputError: if the task is unknown, or naming the folder or file that cannot be read.
    """
    if name not in TASKS:
        raise InputError("task", repr(name), f"one of {', '.join(TASKS)}")
    task = TASKS[name]
    if data is None:
        module, source = seeded(task.module, seed), task.source(seed)
    else:
        inputs, targets = task.read(Path(data))
        module = seeded(partial(task.full_module, inputs), seed)
        source = RowSource(
            inputs,
            targets,
            batch_size=min(BATCH_SIZE, len(inputs)),
            seed=seed,
            # By batch: all images as floats would take four times the memory.
            augment=_to_floats if inputs.dtype == torch.uint8 else None,
        )
    module = module.to(device)
    optimizer = torch.optim.Adam(module.parameters(), lr=task.learning_rate)
    return ModuleJob(module, supervised(task.loss), source, optimizer, seed=seed, device=device)


def seeded(make: Callable[[], nn.Module], seed: int) -> nn.Module:
    """Return a module whose initial weights depend on the seed alone."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(int(stream(seed, "weights").integers(2**63)))
        return make()


def _to_floats(images: Tensor, _: torch.Generator) -> Tensor:
    return images.float() / 127.5 - 1.0
