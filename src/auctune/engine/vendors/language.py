"""Identifies the language of a row, if it is long enough."""

from collections.abc import Sequence
from functools import cache

from py3langid.langid import MODEL_FILE, LanguageIdentifier

from auctune.domain import InputError

# Below these the result is a guess: short texts, code, lists of names.
MIN_LETTERS = 40
MIN_CONFIDENCE = 0.9


@cache
def _load_identifier() -> LanguageIdentifier:
    return LanguageIdentifier.from_model_file(MODEL_FILE, norm_probs=True)


def check_languages(languages: Sequence[str], place: str) -> None:
    """Refuse a language that cannot be identified.

    Raises:
        InputError: naming the first code that is unknown.
    """
    if not languages:
        return
    known = set(_load_identifier().labels)
    for code in languages:
        if code not in known:
            raise InputError(place, f"{code!r} is unknown", f"ISO 639 codes: {sorted(known)}")


def identify_language(text: str) -> str | None:
    """Return the ISO 639 code of the text's language, or None if it is uncertain."""
    if sum(map(str.isalpha, text)) < MIN_LETTERS:
        return None
    code, confidence = _load_identifier().classify(text)
    return str(code) if confidence >= MIN_CONFIDENCE else None
