"""An LSTM that reads an image line by line: two layers, then three fully connected ones."""

from torch import Tensor, nn


class LineReader(nn.Module):
    """Classes of images.

    Args:
        line: numbers in a line of an image, over all channels.
        width: of the LSTM's state.
        classes: to tell apart.
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
        """Logits (rows, classes) of images (rows, channels, height, width)."""
        lines = images.transpose(1, 2).flatten(2)
        read, _ = self.read(lines)
        logits: Tensor = self.head(read[:, -1])
        return logits
