"""Looks through a built site for anything that a browser would fetch from elsewhere.

Links that a reader may follow are no assets; scripts, styles, fonts, images and frames are.
"""

import re
import sys
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path

_FETCHED = {"src", "srcset", "poster", "data", "action"}
_ELSEWHERE = re.compile(r"^\s*(?:[a-z][a-z0-9+.-]*:)?//", re.IGNORECASE)
_IN_STYLE = re.compile(r"""(?:url\(|@import)\s*['"]?\s*((?:https?:)?//[^'")\s]+)""", re.IGNORECASE)


class _Assets(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        for name, value in attributes:
            fetched = name in _FETCHED or (tag == "link" and name == "href")
            if fetched and value and _ELSEWHERE.match(value):
                self.found.append(f"<{tag} {name}={value!r}>")


def assets_elsewhere(path: Path) -> list[str]:
    """What a page or a style sheet has fetched from elsewhere."""
    text = path.read_text()
    page = _Assets()
    if path.suffix == ".html":
        page.feed(text)
    return page.found + _IN_STYLE.findall(text)


def troubles(site: Path) -> Iterator[str]:
    """What is wrong with a site, in a line each."""
    pages = sorted(path for path in site.rglob("*") if path.suffix in (".html", ".css"))
    if not (site / "index.html").is_file() or not (site / "searchindex.js").is_file():
        yield f"{site}: has no index.html or no searchindex.js"
    for path in pages:
        for found in assets_elsewhere(path):
            yield f"{path}: {found}"


def main() -> None:
    """Exit code 1 if there is anything."""
    found = list(troubles(Path(sys.argv[1])))
    for line in found:
        print(line, file=sys.stderr)
    sys.exit(bool(found))


if __name__ == "__main__":
    main()
