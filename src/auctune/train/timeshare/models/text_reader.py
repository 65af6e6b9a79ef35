"""Attention and an LSTM over the words of a text, then four fully connected layers."""

from torch import Tensor, nn

from auctune.train.timeshare.models.attention import SelfAttention


class TextReader(nn.Module):
    """Classes of texts.

    Args:
        vocabulary: number of words.
        width: of the vectors and of the LSTM's state.
        heads: of the attention.
        classes: to tell apart.
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
        """Logits (rows, classes) of texts (rows, length), int64 numbers of words."""
        words = self.embed(texts)
        _, (last, _) = self.read(words + self.attend(words))
        logits: Tensor = self.head(last[-1])
        return logits
