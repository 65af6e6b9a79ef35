"""Residual networks of four stages (He et al., CVPR 2016), in any width."""

from collections.abc import Iterator, Sequence

from torch import Tensor, nn

RESNET_18 = (2, 2, 2, 2)
RESNET_34 = (3, 4, 6, 3)


class ResNet(nn.Module):
    """Classes of images.

    Args:
        blocks: residual blocks of each stage.
        channels: of the images.
        width: channels of the first stage; each later one has twice as many.
        classes: to tell apart.
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
        """Logits (rows, classes) of images (rows, channels, height, width)."""
        logits: Tensor = self.head(self.stages(self.stem(images)).mean((2, 3)))
        return logits


class Residual(nn.Module):
    """Two convolutions, added to what came in.

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
        """(rows, inside, height, width) to (rows, outside, height / stride, width / stride)."""
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
