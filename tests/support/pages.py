"""The project's pages of documentation, cut into what can be checked."""

import re
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
_FENCE = re.compile(r"^```([\w{}-]*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_LINK = re.compile(r"\]\(([^)\s]+)\)")
_CODE = re.compile(r"`([^`]+)`")


@dataclass(frozen=True, slots=True)
class Block:
    """Fenced text: its language, if it names one, its text, and the line on which that starts."""

    language: str
    text: str
    line: int


@dataclass(frozen=True, slots=True)
class Row:
    """A table's row: the heading above its table, and its cells."""

    heading: str
    cells: tuple[str, ...]

    def codes(self, column: int = 0) -> tuple[str, ...]:
        """What stands in a cell as code."""
        return tuple(_CODE.findall(self.cells[column]))


def pages() -> list[Path]:
    found = [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")]
    return sorted(path.relative_to(ROOT) for path in found)


def blocks(page: Path, *languages: str) -> list[Block]:
    text = (ROOT / page).read_text()
    return [
        Block(match[1], match[2], text[: match.start()].count("\n") + 2)
        for match in _FENCE.finditer(text)
        if match[1] in languages
    ]


def inline_codes(page: Path) -> list[str]:
    """Code within sentences and tables."""
    return _CODE.findall(_prose(page))


def links(page: Path) -> list[str]:
    return _LINK.findall(_prose(page))


def headings(page: Path) -> list[str]:
    lines = _prose(page).splitlines()
    return [line.lstrip("#").strip() for line in lines if line.startswith("#")]


def anchors(page: Path) -> set[str]:
    """The names by which links reach the headings, as GitHub makes them."""
    return {re.sub(r"[^\w\- ]", "", text.lower()).replace(" ", "-") for text in headings(page)}


def rows(page: Path) -> Iterator[Row]:
    heading, above = "", False
    lines = _prose(page).splitlines()
    for line, following in zip(lines, [*lines[1:], ""], strict=True):
        if line.startswith("#"):
            heading = line.lstrip("#").strip()
        is_head = following.startswith("| ---")
        if line.startswith("|") and above and not is_head and not line.startswith("| ---"):
            yield Row(heading, tuple(cell.strip() for cell in line.strip("|").split("|")))
        above = line.startswith("|")


def default_of(cell: str) -> object:
    """The value, in TOML, that a cell gives as a default; `none` is None."""
    return None if cell == "none" else tomllib.loads(f"value = {cell.strip('`')}")["value"]


def commands(page: Path) -> list[str]:
    """Lines of shell blocks that start auctune, without what stands before its name."""
    lines = []
    for block in blocks(page, "sh", "console"):
        for line in block.text.splitlines():
            shown = line.removeprefix("$ ") if block.language == "console" else line
            is_typed = block.language == "sh" or line.startswith("$ ")
            if is_typed and re.match(r"(\S*/)?auctune\s", shown):
                lines.append(shown)
    return lines


def _prose(page: Path) -> str:
    return _FENCE.sub("", (ROOT / page).read_text())
