"""Control tokens that people type: text in a chat's messages, tokens where a template writes them.

A tokenizer reads the text of a control token as that token, wherever it stands. So a chat template
gets the texts of a row with a character of no meaning within each control token (`protect`), and
what it renders is tokenized without that character (`encode`): the template's own control tokens
are tokens, those that were typed are the tokens of their characters, exactly as in a text of
characters alone.

A control token is one that the tokenizer calls special. Tags of reasoning (`<think>`) are left as
the base has them, as are the tokens that only save length.
"""

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from tokenizers import Tokenizer
    from transformers import PreTrainedTokenizerBase

REASONING_TAGS = ("<think>", "</think>")

# Rare ideographs: characters that templates keep as they are, in JSON and Python's literals too.
_RARE = range(0x20000, 0x2EBE1)
RARE_PATTERN = re.compile(f"[{chr(_RARE.start)}-{chr(_RARE.stop - 1)}]")


def strings_of(value: Any) -> Iterator[str]:
    """Yield all texts in a JSON value, keys of objects included."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for key, one in value.items():
            yield key
            yield from strings_of(one)
    elif isinstance(value, list | tuple):
        for one in value:
            yield from strings_of(one)


def unused_characters(texts: str) -> Iterator[str]:
    """Yield characters that are not in `texts`, one after the other."""
    used = frozenset(RARE_PATTERN.findall(texts))
    return (one for one in map(chr, _RARE) if one.isprintable() and one not in used)


class ControlTokens:
    """Keeps the control tokens of a fast tokenizer apart from texts that look like them.

    Attributes:
        ids: of all control tokens.
    """

    def __init__(self, tokenizer: "PreTrainedTokenizerBase") -> None:
        self._tokenizer = tokenizer
        special = {str(one) for one in tokenizer.added_tokens_decoder.values() if one.special}
        self._special = special | set(map(str, tokenizer.all_special_tokens))
        self._texts = frozenset(
            one for one in self._special if len(one.strip()) > 1 and one not in REASONING_TAGS
        )
        self.ids = frozenset(tokenizer.convert_tokens_to_ids(sorted(self._special)))
        self._lengths = sorted({len(one) for one in self._texts}, reverse=True)
        first = "".join(sorted({one[0] for one in self._texts}))
        self._first = re.compile(f"[{re.escape(first)}]") if first else None
        self._plain: Tokenizer | None = None

    def find(self, text: str) -> Iterator[tuple[int, int]]:
        """Yield where control tokens stand in a text, the longest at each place."""
        end = 0
        # Some tokenizers have thousands: no pattern of all of them is fast.
        for match in self._first.finditer(text) if self._first else ():
            begin = match.start()
            length = next((n for n in self._lengths if text[begin : begin + n] in self._texts), 0)
            if length and begin >= end:
                end = begin + length
                yield begin, end

    def protect(self, value: Any, breaker: str) -> Any:
        """Return a JSON value with the character `breaker` in each control token of its texts."""
        if isinstance(value, str):
            for begin, _ in reversed(list(self.find(value))):
                value = f"{value[: begin + 1]}{breaker}{value[begin + 1 :]}"
            return value
        if isinstance(value, dict):
            return {
                self.protect(key, breaker): self.protect(one, breaker) for key, one in value.items()
            }
        if isinstance(value, list | tuple):
            return [self.protect(one, breaker) for one in value]
        return value

    def encode(self, text: str, breaker: str, anchor: str) -> tuple[list[int], NDArray[np.int64]]:
        """Return the tokens of a text without the character `breaker`.

        A control token with that character in it is text.

        Args:
            text: as a template rendered it.
            breaker: as of `protect`.
            anchor: another character that is not in the text.

        Returns:
            Ids, and for each the place in `text` of its first character and behind its last one,
            int64 [tokens, 2].
        """
        encoded = self._tokenizer(
            text, add_special_tokens=False, return_offsets_mapping=True, verbose=False
        )
        ids = list(encoded["input_ids"])
        places = np.array(encoded["offset_mapping"], dtype=np.int64).reshape(-1, 2)
        if breaker not in text:
            return ids, places
        # Each control token of the template becomes one character that is a token by itself: the
        # texts between are tokenized as they were, but for the control tokens in them.
        written = [
            (one, int(begin), int(end))
            for one, (begin, end) in zip(ids, places, strict=True)
            if text[begin:end].strip() in self._special
        ]
        kept = np.array([one != breaker for one in text])
        characters = list(text)
        ends = np.arange(1, len(text) + 1)
        for _, begin, end in written:
            kept[begin + 1 : end] = False
            characters[begin], ends[begin] = anchor, end
        origins = np.flatnonzero(kept)
        found = self._plain_tokenizer(anchor).encode(
            "".join(characters[n] for n in origins), add_special_tokens=False
        )
        anchor_id = self._plain_tokenizer(anchor).token_to_id(anchor)
        written_ids = iter([one for one, _, _ in written])
        ids = [next(written_ids) if one == anchor_id else one for one in found.ids]
        inner = np.array(found.offsets, dtype=np.int64).reshape(-1, 2)
        begins = np.append(origins, len(text))[inner[:, 0]]
        behind = np.where(inner[:, 1] > inner[:, 0], ends[origins[inner[:, 1] - 1]], begins)
        return ids, np.stack([begins, behind], axis=1)

    def _plain_tokenizer(self, anchor: str) -> "Tokenizer":
        """Return the tokenizer that reads control tokens as text, and `anchor` as a token."""
        from tokenizers import AddedToken, Tokenizer

        if self._plain is None or self._plain.token_to_id(anchor) is None:
            self._plain = Tokenizer.from_str(self._tokenizer.backend_tokenizer.to_str())
            self._plain.no_truncation()
            self._plain.no_padding()
            self._plain.encode_special_tokens = True
            self._plain.add_tokens([AddedToken(anchor, special=False, normalized=False)])
        return self._plain
