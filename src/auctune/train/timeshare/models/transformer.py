"""A transformer over the frames of a sound, and a fully connected layer over all of them."""

import torch
from torch import Tensor, nn

from auctune.train.timeshare.models.attention import Block


class SoundReader(nn.Module):
    """Yes or no for each of several words of a sound.

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
        """Logits of yes (rows, words) of sounds (rows, frames, bands)."""
        logits: Tensor = self.head(self.blocks(self.embed(sounds) + self.place).flatten(1))
        return logits
