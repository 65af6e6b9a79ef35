"""A policy on what is seen of a grid: convolutions and poolings, then three full layers."""

from torch import Tensor, nn


class GridPolicy(nn.Module):
    """Actions by what is seen.

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
        """Logits (rows, actions) of views (rows, channels, size, size)."""
        logits: Tensor = self.layers(views)
        return logits
