"""Reviews of films: IMDB (Maas et al., 2011), from its folder.

aclImdb/train/pos/*.txt and aclImdb/train/neg/*.txt, a review each. Texts become numbers of words:
lower case, letters and apostrophes; the most frequent words have numbers, of equals the first in
the alphabet, all others one in common.
"""

import re
from collections import Counter
from pathlib import Path

import torch
from torch import Tensor

from auctune.domain.errors import InputError

LENGTH = 200
VOCABULARY = 20_000
NOTHING, OTHER = 0, 1
_WORD = re.compile(r"[a-z']+")
EXPECTED = "IMDB's train/pos/*.txt and train/neg/*.txt"


def read_reviews(folder: Path) -> tuple[Tensor, Tensor]:
    """Reviews (rows, LENGTH), numbers of words, and whether they are good (rows,), int64.

    Args:
        folder: aclImdb.

    Raises:
        InputError: naming the folder or the file.
    """
    texts: list[list[str]] = []
    labels: list[int] = []
    for label, name in enumerate(("neg", "pos")):
        paths = sorted((folder / "train" / name).glob("*.txt"))
        if not paths:
            raise InputError(str(folder), f"has no train/{name}/*.txt", EXPECTED)
        texts += [_words(path) for path in paths]
        labels += [label] * len(paths)
    counts = Counter(word for text in texts for word in text)
    common = sorted(counts, key=lambda word: (-counts[word], word))[: VOCABULARY - 2]
    numbers = {word: number for number, word in enumerate(common, start=2)}
    rows = torch.full((len(texts), LENGTH), NOTHING, dtype=torch.int64)
    for row, text in enumerate(texts):
        found = [numbers.get(word, OTHER) for word in text[:LENGTH]]
        rows[row, : len(found)] = torch.tensor(found, dtype=torch.int64)
    return rows, torch.tensor(labels)


def _words(path: Path) -> list[str]:
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        found = f"cannot be read ({error.strerror})"
        raise InputError(str(path), found, "a review") from None
    except UnicodeDecodeError:
        raise InputError(str(path), "is not UTF-8 text", "a review") from None
    return _WORD.findall(text.replace("<br />", " ").lower())
