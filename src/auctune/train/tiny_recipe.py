"""How a tiny base is made, and the name that its result is kept under; needs no torch."""

import hashlib
import json
from dataclasses import asdict, dataclass


@dataclass(frozen=True, slots=True)
class TinyRecipe:
    """How a tiny base is made.

    Attributes:
        version: raised whenever the code or the texts change what comes out.
        layers, heads, width, context: of the GPT-2; context in tokens.
        vocabulary: tokens that the tokenizer knows.
        num_texts: texts that the tokenizer is trained on.
        steps, rows, row_tokens, learning_rate: of its pre-training with AdamW.
        seed: of everything random in it.
    """

    version: int = 1
    layers: int = 3
    heads: int = 4
    width: int = 128
    context: int = 512
    vocabulary: int = 1024
    num_texts: int = 4000
    steps: int = 400
    rows: int = 8
    row_tokens: int = 48
    learning_rate: float = 4e-3
    seed: int = 2024

    @property
    def key(self) -> str:
        """The name under which its result is cached."""
        parts = json.dumps(asdict(self), sort_keys=True).encode()
        return f"tiny-{self.version}-{hashlib.sha256(parts).hexdigest()[:12]}"


TINY = TinyRecipe()
