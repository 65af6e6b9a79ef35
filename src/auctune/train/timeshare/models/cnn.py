"""A convolutional network: three convolutions, two poolings, two fully connected layers."""

from torch import Tensor, nn


class CNN(nn.Module):
    """Classes of square images.

    Args:
        size: of an image's sides, a multiple of 4.
        channels: of the images.
        width: channels of the first convolution; the others have twice as many.
        classes: to tell apart.
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
        """Logits (rows, classes) of images (rows, channels, size, size)."""
        logits: Tensor = self.layers(images)
        return logits
