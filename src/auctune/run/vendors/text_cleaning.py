"""Texts put into one Unicode form, without what nobody can see and nobody meant.

Changed: mojibake (UTF-8 once read as Windows-1252), canonical composition (NFC), control and
zero-width characters, ends of lines, blanks at their ends, runs of more than two blank lines.
Kept: indentation and inner blanks (code), joiners (Persian, emoji), everything visible.
"""

import re
import unicodedata

# The five bytes that Windows-1252 leaves undefined pass through as they do in browsers.
_BYTE_OF = {bytes([b]).decode("cp1252", errors="ignore") or chr(b): b for b in range(256)}
# How UTF-8's lead bytes C2, C3 and E2 80 look in Windows-1252: the sure signs of mojibake.
_MOJIBAKE_SIGNS = re.compile("[\u00c2\u00c3][\u0080-\u00ff\u0152-\u2122]|\u00e2\u20ac")

_LINE_ENDS = re.compile("\r\n|[\r\u0085\u2028\u2029\f\v]")
_INVISIBLE = re.compile("[\x00-\x08\x0e-\x1f\x7f-\x84\x86-\x9f\u200b\u2060\ufeff\ud800-\udfff]")
# Only from the begin of a run of blanks: linear also where none of them ends a line.
_BLANK_ENDS = re.compile("(?<![ \t])[ \t]+\n")
_BLANK_LINES = re.compile("\n{4,}")


def clean_text(text: str) -> str:
    """`text` in its clean form; cleaning that again changes nothing.

    Blanks at both ends are kept: whether they mean something depends on the row's kind.
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
    """`text` as it was before its UTF-8 was read as Windows-1252, if that is beyond doubt.

    It is if every character is one of Windows-1252's, the bytes behind them are valid UTF-8 as a
    whole, and a tell-tale pair is among them; a single intact accent makes the bytes invalid.
    """
    if not _MOJIBAKE_SIGNS.search(text):
        return text
    try:
        return bytes(_BYTE_OF[character] for character in text).decode("utf-8")
    except (KeyError, UnicodeDecodeError):
        return text
