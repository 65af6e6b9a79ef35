"""Self-attention and the transformer block, as several small models use them."""

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
        """Every vector as a mean of all, weighted by likeness."""
        rows, length, width = sequence.shape
        parts = self.mix(sequence).view(rows, length, 3, self._heads, width // self._heads)
        query, key, value = parts.permute(2, 0, 3, 1, 4)
        seen = scaled_dot_product_attention(query, key, value)
        mixed: Tensor = self.out(seen.transpose(1, 2).reshape(rows, length, width))
        return mixed


class Block(nn.Module):
    """Attention and two layers, each normed before and added to what came in.

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
        """(rows, length, width) to the same."""
        sequence = sequence + self.attend(sequence)
        return sequence + self.think(sequence)  # type: ignore[no-any-return]
