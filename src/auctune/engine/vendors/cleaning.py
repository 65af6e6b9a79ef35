"""Cleans the texts of rows, and rewrites rows as another kind.

Changed: mojibake (UTF-8 once read as Windows-1252), canonical composition (NFC), control and
zero-width characters, line ends, blanks at the ends of lines, runs of more than two blank lines.
Kept: indentation and inner blanks (code), joiners (Persian, emoji), everything visible.
"""

import re
import unicodedata

from auctune.domain.dataset import RowKind
from auctune.engine.vendors.schema import CONTEXT, ShapedRow

# The five bytes that Windows-1252 leaves undefined pass through as they do in browsers.
_BYTE_OF = {bytes([b]).decode("cp1252", errors="ignore") or chr(b): b for b in range(256)}
# How UTF-8's lead bytes C2, C3 and E2 80 look in Windows-1252: the sure signs of mojibake.
_MOJIBAKE_SIGNS = re.compile("[\u00c2\u00c3][\u0080-\u00ff\u0152-\u2122]|\u00e2\u20ac")

_LINE_ENDS = re.compile("\r\n|[\r\u0085\u2028\u2029\f\v]")
_INVISIBLE = re.compile("[\x00-\x08\x0e-\x1f\x7f-\x84\x86-\x9f\u200b\u2060\ufeff\ud800-\udfff]")
# Only from the start of a run of blanks: linear also where none of them ends a line.
_BLANK_ENDS = re.compile("(?<![ \t])[ \t]+\n")
_BLANK_LINES = re.compile("\n{4,}")


def clean_row(row: ShapedRow) -> ShapedRow:
    """Return the row with clean texts; a chat loses empty system and empty last messages.

    Between prompt and completion blanks are kept: a trainer joins the two as they stand.
    """
    texts = tuple((part, _clean_part(part, text)) for part, text in row.texts)
    if row.kind is RowKind.CHAT:
        texts = tuple((role, text) for role, text in texts if text or role != "system")
        last = max((n for n, (_, text) in enumerate(texts) if text), default=-1)
        texts = texts[: last + 1]
    return ShapedRow(row.kind, texts)


def end_with_answer(row: ShapedRow) -> ShapedRow:
    """Return a chat up to the assistant's last message; another row as it is."""
    roles = [role for role, _ in row.texts]
    last = max((n for n, role in enumerate(roles) if role in ("assistant", CONTEXT)), default=None)
    return row if last is None else ShapedRow(row.kind, row.texts[: last + 1])


def _clean_part(part: str, text: str) -> str:
    # Stripping may expose what cleaning can repair then (mojibake beside a wide blank).
    while (cleaned := _strip(part, clean_text(text))) != text:
        text = cleaned
    return text


def _strip(part: str, text: str) -> str:
    if not text.strip():
        return ""
    if part == "prompt":
        return text.lstrip()
    return text.rstrip() if part == "completion" else text.strip()


def has_content(row: ShapedRow) -> bool:
    """Return whether a trainer can learn from the row: only a prompt may be empty."""
    if row.kind is RowKind.CHAT:
        roles = [role for role, _ in row.texts]
        return "assistant" in roles and all(text for _, text in row.texts)
    return bool(row.texts[-1][1])


def convert_row(row: ShapedRow, kind: RowKind) -> ShapedRow | None:
    """Return the row as one of `kind`, or None where that would lose or invent something."""
    if row.kind is kind:
        return row
    texts = dict(row.texts)
    if row.kind is RowKind.TEXT:
        # Without a prompt, all of the text is learned: what a text row means.
        completion = (("prompt", ""), ("completion", texts["text"]))
        return ShapedRow(kind, completion) if kind is RowKind.COMPLETION else None
    if row.kind is RowKind.COMPLETION:
        return _convert_completion(texts["prompt"], texts["completion"], kind)
    return _convert_chat(row) if kind is RowKind.COMPLETION else None


def _convert_completion(prompt: str, completion: str, kind: RowKind) -> ShapedRow | None:
    if kind is RowKind.TEXT:
        return ShapedRow(kind, (("text", prompt + completion),))
    if not prompt.strip():
        return None
    return ShapedRow(kind, (("user", prompt.strip()), ("assistant", completion.strip())))


def _convert_chat(row: ShapedRow) -> ShapedRow | None:
    """Convert one question and its answer, with or without a system message before them."""
    roles = [role for role, _ in row.texts]
    if roles not in (["user", "assistant"], ["system", "user", "assistant"]):
        return None
    *questions, answer = [text for _, text in row.texts]
    prompt = "\n\n".join(questions) + "\n"
    return ShapedRow(RowKind.COMPLETION, (("prompt", prompt), ("completion", answer)))


def clean_text(text: str) -> str:
    """Return `text` in its clean form; cleaning is idempotent.

    Blanks at both ends are kept: whether they matter depends on the kind of row.
    """
    while (cleaned := _clean_once(text)) != text:
        text = cleaned
    return text


def _clean_once(text: str) -> str:
    text = undo_mojibake(text)
    text = _LINE_ENDS.sub("\n", text)
    text = _INVISIBLE.sub("", text)
    text = unicodedata.normalize("NFC", text)
    text = _BLANK_ENDS.sub("\n", text)
    return _BLANK_LINES.sub("\n\n\n", text)


def undo_mojibake(text: str) -> str:
    """Return `text` as it was before its UTF-8 was read as Windows-1252, if that is certain.

    It is if every character is one of Windows-1252's, the bytes behind them are valid UTF-8 as a
    whole, and a tell-tale pair is among them; a single intact accent makes the bytes invalid.
    """
    if not _MOJIBAKE_SIGNS.search(text):
        return text
    try:
        return bytes(_BYTE_OF[character] for character in text).decode("utf-8")
    except (KeyError, UnicodeDecodeError):
        return text
