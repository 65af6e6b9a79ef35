"""Text of the tokens of an answer, piece by piece, up to a text that stops it."""

from collections.abc import Iterator, Sequence

from tokenizers.decoders import DecodeStream
from transformers import PreTrainedTokenizerBase

from auctune.domain.errors import InputError
from auctune.domain.generation import AnswerEnd, AnswerPiece, DrawnToken, FinishReason


class AnswerPieces:
    """Pieces of one answer, made of its tokens.

    Args:
        number: of the answer.
        text: of the answer, without a token yet.
        ends: tokens that end it.
        room: tokens that it may have, at least 1.

    Attributes:
        is_complete: whether its last piece has come.
    """

    def __init__(self, number: int, text: "AnswerText", ends: frozenset[int], room: int) -> None:
        self.is_complete = False
        self._number, self._text, self._ends, self._room = number, text, ends, room
        self._num_tokens = 0

    def add(self, token: int, drawn: DrawnToken | None) -> Iterator[AnswerPiece | AnswerEnd]:
        """Add a token of an answer that is not complete; yield what can be shown by now."""
        self._num_tokens += 1
        reason: FinishReason | None = None
        shown: str = ""
        tokens: tuple[DrawnToken, ...] = ()
        if token in self._ends:
            reason = "stop"
        else:
            shown, tokens = self._text.add(token, drawn)
            if self._text.is_stopped:
                reason = "stop"
            elif self._num_tokens == self._room:
                reason = "length"
        if reason is not None and not self._text.is_stopped:
            rest, more = self._text.finish()
            shown, tokens = shown + rest, tokens + more
        if shown or tokens:
            yield AnswerPiece(self._number, shown, tokens, self._num_tokens)
        if reason is not None:
            self.is_complete = True
            yield AnswerEnd(self._number, reason, self._num_tokens)


class AnswerText:
    """Text of one answer.

    Text is held back as long as it may turn out to be the beginning of a stop text, and so are the
    tokens that it is made of.

    Args:
        tokenizer: a fast one.
        stop: texts that end the answer; they do not belong to it.

    Attributes:
        is_stopped: whether a stop text has come.
    """

    def __init__(self, tokenizer: PreTrainedTokenizerBase, stop: Sequence[str]) -> None:
        self.is_stopped = False
        self._tokenizer = tokenizer
        self._stop = stop
        self._stream = DecodeStream(skip_special_tokens=True)
        self._held = ""
        # Characters before those that are held, and where the held tokens begin.
        self._sent = 0
        self._tokens: list[tuple[int, DrawnToken]] = []

    def add(self, token: int, drawn: DrawnToken | None) -> tuple[str, tuple[DrawnToken, ...]]:
        """Add a token; return what can be shown by now: complete characters, and their tokens."""
        if drawn is not None:
            self._tokens.append((self._sent + len(self._held), drawn))
        self._held += self._stream.step(self._tokenizer.backend_tokenizer, token) or ""
        found = [at for stop in self._stop if (at := self._held.find(stop)) >= 0]
        if found:
            self.is_stopped = True
            return self._release(min(found))
        return self._release(len(self._held) - self._num_doubtful())

    def finish(self) -> tuple[str, tuple[DrawnToken, ...]]:
        """Return the rest of an answer that no stop text has ended."""
        text, shown = self._release(len(self._held))
        # Those of an incomplete character have no text.
        rest = tuple(drawn for _, drawn in self._tokens)
        self._tokens = []
        return text, shown + rest

    def _num_doubtful(self) -> int:
        """Return how many of the last characters may begin a stop text."""
        longest = max(map(len, self._stop), default=1) - 1
        for count in range(min(longest, len(self._held)), 0, -1):
            if any(stop.startswith(self._held[-count:]) for stop in self._stop):
                return count
        return 0

    def _release(self, count: int) -> tuple[str, tuple[DrawnToken, ...]]:
        text, self._held = self._held[:count], self._held[count:]
        self._sent += count
        shown = tuple(drawn for begin, drawn in self._tokens if begin < self._sent)
        self._tokens = self._tokens[len(shown) :]
        return text, shown


def diverged_error() -> InputError:
    """Return the error of an adapter that overflows."""
    expected = "a model whose weights have not diverged"
    return InputError("model", "computes numbers that are not finite", expected)
