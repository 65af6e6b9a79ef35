"""An extension of Sphinx: docstrings as they are written here, made into what it reads.

Docstrings mark code by single backticks and say nothing else in any markup; to reStructuredText
those are references, and stars, bars and underscores are marks. Indented lines are formulas: they
are kept as they stand.
"""

import re
from typing import Any

_CODE = re.compile(r"(`+[^`\n]+`+)")
_MARKS = re.compile(r"([*|\\]|_(?=\W|$))")
_SECTION = re.compile(r"^(Args|Attributes|Returns|Yields|Raises):$")


def _marked_line(line: str) -> str:
    parts = _CODE.split(line)
    parts[::2] = [_MARKS.sub(r"\\\1", part) for part in parts[::2]]
    parts[1::2] = [f"``{part.strip('`')}``" for part in parts[1::2]]
    return "".join(parts)


def _is_kept(line: str) -> bool:
    return line.startswith(("    ", "| "))


def marked(lines: list[str]) -> list[str]:
    """The lines of a docstring in reStructuredText; sections of arguments stay Google's."""
    made: list[str] = []
    in_section = is_kept = False
    for line in lines:
        in_section = bool(_SECTION.match(line)) or (in_section and line[:1] in ("", " "))
        begins = not in_section and not is_kept and _is_kept(line)
        if begins and (not made or not made[-1].strip()):
            made += ["::", ""]
            is_kept = True
        if is_kept and line.strip() and not _is_kept(line):
            is_kept = False
            made.append("")
        made.append(f"   {line}".rstrip() if is_kept else _marked_line(line))
    return made


def _process(
    _app: Any, _what: str, _name: str, _object: Any, _options: Any, lines: list[str]
) -> None:
    lines[:] = marked(lines)


def setup(app: Any) -> dict[str, Any]:
    """Come before the extension that reads sections."""
    app.connect("autodoc-process-docstring", _process, priority=100)
    return {"parallel_read_safe": True, "version": "1"}
