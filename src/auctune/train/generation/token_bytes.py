"""Bytes that a token stands for, which need not be whole characters."""

import re
from collections.abc import Iterable

from transformers import PreTrainedTokenizerBase
from transformers.convert_slow_tokenizer import bytes_to_unicode

from auctune.domain.generation import DrawnToken, TokenLogprob

# How tokenizers of sentencepiece write a byte that is no character, and a space.
_BYTE = re.compile(r"<0x([0-9A-F]{2})>")
_SPACE = "\u2581"


class TokenBytes:
    """Bytes of a tokenizer's tokens, in UTF-8."""

    def __init__(self, tokenizer: PreTrainedTokenizerBase) -> None:
        self._tokenizer = tokenizer
        self._added = {number: str(one) for number, one in tokenizer.added_tokens_decoder.items()}
        characters: dict[int, str] = bytes_to_unicode()
        self._byte_of = {character: byte for byte, character in characters.items()}
        # A tokenizer of bytes writes each as a character, none of them a space.
        space = characters[ord(" ")]
        self._is_of_bytes = any(text.startswith(space) for text in tokenizer.get_vocab())

    def of(self, token: int) -> bytes:
        """Return the bytes of a token."""
        if token in self._added:
            return self._added[token].encode()
        text: str | None = self._tokenizer.convert_ids_to_tokens(token)
        if text is None:
            # Vocabularies of models are often padded.
            return b""
        if self._is_of_bytes:
            return bytes(self._byte_of[character] for character in text)
        if (byte := _BYTE.fullmatch(text)) is not None:
            return bytes([int(byte[1], 16)])
        return text.replace(_SPACE, " ").encode()

    def describe(self, token: int, logprob: float, top: Iterable[tuple[int, float]]) -> DrawnToken:
        """Return a drawn token; `top` are the likeliest ones with their log-probabilities."""
        own = self._one(token, logprob)
        likeliest = tuple(self._one(*one) for one in top)
        return DrawnToken(own.token, own.bytes, own.logprob, likeliest)

    def _one(self, token: int, logprob: float) -> TokenLogprob:
        content = self.of(token)
        return TokenLogprob(content.decode(errors="replace"), tuple(content), logprob)
