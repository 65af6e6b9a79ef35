"""Models of the paper's tasks, in any width: ViT, LSTM, CNN, ResNet, transformer and a policy."""

from collections.abc import Iterator, Sequence

import torch
from torch import Tensor, nn
from torch.nn.functional import scaled_dot_product_attention


class SelfAttention(nn.Module):
    """Multi-head attention of a sequence to itself: (rows, length, width) to the same.

    Args:
        width: of the sequence's vectors, a multiple of `heads`.
        heads: how many.
    """

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self._heads = heads
        self.mix = nn.Linear(width, 3 * width)
        self.out = nn.Linear(width, width)

    def forward(self, sequence: Tensor) -> Tensor:
        rows, length, width = sequence.shape
        parts = self.mix(sequence).view(rows, length, 3, self._heads, width // self._heads)
        query, key, value = parts.permute(2, 0, 3, 1, 4)
        seen = scaled_dot_product_attention(query, key, value)
        mixed: Tensor = self.out(seen.transpose(1, 2).reshape(rows, length, width))
        return mixed


class Block(nn.Module):
    """Pre-norm transformer block.

    Args:
        width: of the sequence's vectors.
        heads: of the attention.
        dropout: share of what each part adds that is left out.
    """

    def __init__(self, width: int, heads: int, dropout: float = 0.0) -> None:
        super().__init__()
        self.attend = nn.Sequential(
            nn.LayerNorm(width), SelfAttention(width, heads), nn.Dropout(dropout)
        )
        self.think = nn.Sequential(
            nn.LayerNorm(width),
            nn.Linear(width, 2 * width),
            nn.GELU(),
            nn.Linear(2 * width, width),
            nn.Dropout(dropout),
        )

    def forward(self, sequence: Tensor) -> Tensor:
        sequence = sequence + self.attend(sequence)
        return sequence + self.think(sequence)  # type: ignore[no-any-return]


class CNN(nn.Module):
    """Convolutional network: three convolutions, two poolings, two fully connected layers.

    Args:
        size: of an image's sides, a multiple of 4.
        channels: of the images.
        width: channels of the first convolution; the others have twice as many.
        classes: number of classes.
    """

    def __init__(
        self, *, size: int = 8, channels: int = 1, width: int = 8, classes: int = 10
    ) -> None:
        super().__init__()
        self.layers = nn.Sequential(
            nn.Conv2d(channels, width, 3, padding=1),
            nn.ReLU(),
            nn.MaxPool2d(2),
            nn.Conv2d(width, 2 * width, 3, padding=1),
            nn.ReLU(),
            nn.MaxPool2d(2),
            nn.Conv2d(2 * width, 2 * width, 3, padding=1),
            nn.ReLU(),
            nn.Flatten(),
            nn.Linear(2 * width * (size // 4) ** 2, 32),
            nn.ReLU(),
            nn.Linear(32, classes),
        )

    def forward(self, images: Tensor) -> Tensor:
        logits: Tensor = self.layers(images)
        return logits


class RowLSTM(nn.Module):
    """Classifier that reads an image row by row: a two-layer LSTM, three fully connected layers.

    Args:
        line: numbers in a line of an image, over all channels.
        width: of the LSTM's state.
        classes: number of classes.
    """

    def __init__(self, *, line: int = 8, width: int = 48, classes: int = 10) -> None:
        super().__init__()
        self.read = nn.LSTM(line, width, num_layers=2, batch_first=True)
        self.head = nn.Sequential(
            nn.Linear(width, width),
            nn.ReLU(),
            nn.Linear(width, width // 2),
            nn.ReLU(),
            nn.Linear(width // 2, classes),
        )

    def forward(self, images: Tensor) -> Tensor:
        lines = images.transpose(1, 2).flatten(2)
        read, _ = self.read(lines)
        logits: Tensor = self.head(read[:, -1])
        return logits


class GridPolicy(nn.Module):
    """Policy on views of a grid: convolutions and poolings, then three fully connected layers.

    Args:
        size: of the grid's sides, in cells.
        channels: kinds of things that a cell may hold.
        width: channels of the first convolution.
        actions: to choose from.
    """

    def __init__(
        self, *, size: int = 8, channels: int = 3, width: int = 12, actions: int = 4
    ) -> None:
        super().__init__()
        left = size // 4
        self.layers = nn.Sequential(
            nn.Conv2d(channels, width, 3, padding=1),
            nn.ReLU(),
            nn.Conv2d(width, width, 3, padding=1),
            nn.ReLU(),
            nn.MaxPool2d(2),
            nn.Conv2d(width, 2 * width, 3, padding=1),
            nn.ReLU(),
            nn.MaxPool2d(2),
            nn.Flatten(),
            nn.Linear(2 * width * left * left, 64),
            nn.ReLU(),
            nn.Linear(64, 32),
            nn.ReLU(),
            nn.Linear(32, actions),
        )

    def forward(self, views: Tensor) -> Tensor:
        logits: Tensor = self.layers(views)
        return logits


RESNET_18 = (2, 2, 2, 2)
RESNET_34 = (3, 4, 6, 3)


class ResNet(nn.Module):
    """Residual network of four stages (He et al., CVPR 2016).

    Args:
        blocks: residual blocks of each stage.
        channels: of the images.
        width: channels of the first stage; each later one has twice as many.
        classes: number of classes.
    """

    def __init__(
        self,
        blocks: Sequence[int] = RESNET_18,
        *,
        channels: int = 1,
        width: int = 4,
        classes: int = 10,
    ) -> None:
        super().__init__()
        self.stem = nn.Sequential(
            nn.Conv2d(channels, width, 3, padding=1, bias=False), nn.BatchNorm2d(width), nn.ReLU()
        )
        self.stages = nn.Sequential(*_stages(blocks, width))
        self.head = nn.Linear(width * 2 ** (len(blocks) - 1), classes)

    def forward(self, images: Tensor) -> Tensor:
        logits: Tensor = self.head(self.stages(self.stem(images)).mean((2, 3)))
        return logits


class Residual(nn.Module):
    """Residual block: two convolutions, added to the input.

    Args:
        inside: channels of what comes in.
        outside: channels of what goes out.
        stride: of the first convolution.
    """

    def __init__(self, inside: int, outside: int, stride: int) -> None:
        super().__init__()
        self.change = nn.Sequential(
            nn.Conv2d(inside, outside, 3, stride, padding=1, bias=False),
            nn.BatchNorm2d(outside),
            nn.ReLU(),
            nn.Conv2d(outside, outside, 3, padding=1, bias=False),
            nn.BatchNorm2d(outside),
        )
        same = inside == outside and stride == 1
        self.keep = nn.Identity() if same else _project(inside, outside, stride)
        self.bend = nn.ReLU()

    def forward(self, images: Tensor) -> Tensor:
        changed: Tensor = self.bend(self.change(images) + self.keep(images))
        return changed


def _project(inside: int, outside: int, stride: int) -> nn.Module:
    return nn.Sequential(nn.Conv2d(inside, outside, 1, stride, bias=False), nn.BatchNorm2d(outside))


def _stages(blocks: Sequence[int], width: int) -> Iterator[nn.Module]:
    inside = width
    for stage, count in enumerate(blocks):
        outside = width * 2**stage
        for block in range(count):
            yield Residual(inside, outside, 2 if stage and not block else 1)
            inside = outside


class AttentionLSTMClassifier(nn.Module):
    """Text classifier: attention and an LSTM, then four fully connected layers.

    Args:
        vocabulary: number of words.
        width: of the vectors and of the LSTM's state.
        heads: of the attention.
        classes: number of classes.
    """

    def __init__(
        self, *, vocabulary: int, width: int = 24, heads: int = 2, classes: int = 2
    ) -> None:
        super().__init__()
        self.embed = nn.Embedding(vocabulary, width)
        self.attend = SelfAttention(width, heads)
        self.read = nn.LSTM(width, width, batch_first=True)
        self.head = nn.Sequential(
            nn.Linear(width, 32),
            nn.ReLU(),
            nn.Linear(32, 32),
            nn.ReLU(),
            nn.Linear(32, 16),
            nn.ReLU(),
            nn.Linear(16, classes),
        )

    def forward(self, texts: Tensor) -> Tensor:
        words = self.embed(texts)
        _, (last, _) = self.read(words + self.attend(words))
        logits: Tensor = self.head(last[-1])
        return logits


class AudioTransformer(nn.Module):
    """Multi-label classifier of sounds: a transformer and a fully connected layer over all frames.

    Args:
        frames: of a sound.
        bands: numbers a frame.
        width: of the vectors.
        depth: blocks.
        heads: of each block's attention.
        words: answers.
        dropout: of the blocks.
    """

    def __init__(
        self,
        *,
        frames: int = 32,
        bands: int = 16,
        width: int = 16,
        depth: int = 1,
        heads: int = 2,
        words: int = 8,
        dropout: float = 0.1,
    ) -> None:
        super().__init__()
        self.embed = nn.Linear(bands, width)
        self.place = nn.Parameter(0.02 * torch.randn(1, frames, width))
        self.blocks = nn.Sequential(*(Block(width, heads, dropout) for _ in range(depth)))
        self.head = nn.Linear(frames * width, words)

    def forward(self, sounds: Tensor) -> Tensor:
        logits: Tensor = self.head(self.blocks(self.embed(sounds) + self.place).flatten(1))
        return logits


class ViT(nn.Module):
    """Vision transformer (Dosovitskiy et al., ICLR 2021), with means instead of a class token.

    Args:
        size: of an image's sides, in pixels.
        channels: of the images.
        patch: of a patch's sides; divides `size`.
        width: of the vectors.
        depth: blocks.
        heads: of each block's attention.
        classes: number of classes.
    """

    def __init__(
        self,
        *,
        size: int = 8,
        channels: int = 1,
        patch: int = 2,
        width: int = 24,
        depth: int = 2,
        heads: int = 2,
        classes: int = 10,
    ) -> None:
        super().__init__()
        self.embed = nn.Conv2d(channels, width, patch, patch)
        self.place = nn.Parameter(0.02 * torch.randn(1, (size // patch) ** 2, width))
        self.blocks = nn.Sequential(*(Block(width, heads) for _ in range(depth)))
        self.head = nn.Sequential(nn.LayerNorm(width), nn.Linear(width, classes))

    def forward(self, images: Tensor) -> Tensor:
        patches = self.embed(images).flatten(2).transpose(1, 2) + self.place
        logits: Tensor = self.head(self.blocks(patches).mean(1))
        return logits
