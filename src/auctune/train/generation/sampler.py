"""Drawing of tokens from logits z at a temperature T, from the likeliest ones of mass top_p:

p(token) ~ exp(z / T)

among the fewest tokens whose probabilities sum to top_p or more; at T = 0 the likeliest token.
"""

import secrets
from collections.abc import Sequence

import torch
from torch import Tensor
from transformers import PreTrainedTokenizerBase

from auctune.domain.generation import DrawnToken, SamplingParams
from auctune.train.generation.token_bytes import TokenBytes

_MAX_SEED = 2**63 - 1


class Sampler:
    """Draws the tokens of one answer.

    Args:
        params: of the request.
        answer: number of the answer, which has draws of its own.
        device: of the logits.
    """

    def __init__(self, params: SamplingParams, answer: int, device: torch.device) -> None:
        self.params = params
        seed = secrets.randbits(62) if params.seed is None else params.seed
        self._generator = torch.Generator(device).manual_seed((seed + answer) % _MAX_SEED)

    def draw(self, logits: Tensor) -> Tensor:
        """Return a token [] from logits, float32 [vocabulary]."""
        params = self.params
        # Shifted first: a small temperature must not make the largest of them infinite.
        probs = torch.softmax((logits - logits.max()) / params.temperature, dim=-1)
        if params.top_p < 1:
            ordered, tokens = probs.sort(descending=True)
            before = ordered.cumsum(dim=-1) - ordered
            # The likeliest token stays, whatever top_p is.
            ordered[1:][before[1:] >= params.top_p] = 0.0
            return tokens[torch.multinomial(ordered, 1, generator=self._generator)][0]
        return torch.multinomial(probs, 1, generator=self._generator)[0]


def draw_tokens(samplers: Sequence[Sampler], logits: Tensor) -> Tensor:
    """Return a token for each row of logits: int64 [rows] from float32 [rows, vocabulary]."""
    tokens = logits.argmax(dim=-1)
    for row, sampler in enumerate(samplers):
        if sampler.params.temperature > 0:
            tokens[row] = sampler.draw(logits[row])
    return tokens


class LogprobReader:
    """Reports tokens with their logarithmic probabilities at temperature 1."""

    def __init__(self, tokenizer: PreTrainedTokenizerBase) -> None:
        self._bytes = TokenBytes(tokenizer)

    def read(self, token: int, logits: Tensor, num_top: int) -> DrawnToken:
        """Return a drawn token and the `num_top` likeliest ones, of logits [vocabulary]."""
        logprobs = torch.log_softmax(logits, dim=-1)
        values, tokens = logprobs.topk(min(num_top, len(logprobs)))
        top = zip(tokens.tolist(), values.tolist(), strict=True)
        return self._bytes.describe(token, float(logprobs[token]), top)
