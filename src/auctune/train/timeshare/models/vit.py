"""A vision transformer (Dosovitskiy et al., ICLR 2021), with means instead of a class token."""

import torch
from torch import Tensor, nn

from auctune.train.timeshare.models.attention import Block


class ViT(nn.Module):
    """Classes of square images, cut into square patches.

    Args:
        size: of an image's sides, in pixels.
        channels: of the images.
        patch: of a patch's sides; divides `size`.
        width: of the vectors.
        depth: blocks.
        heads: of each block's attention.
        classes: to tell apart.
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
        """Logits (rows, classes) of images (rows, channels, size, size)."""
        patches = self.embed(images).flatten(2).transpose(1, 2) + self.place
        logits: Tensor = self.head(self.blocks(patches).mean(1))
        return logits
