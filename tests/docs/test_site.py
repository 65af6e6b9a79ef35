"""The site of the pages: its navigation, its docstrings, and what it would fetch from elsewhere."""

import re
from pathlib import Path

import pytest
from check_assets import assets_elsewhere, troubles
from docstrings import marked

from support.pages import ROOT, links

pytestmark = pytest.mark.slow

DOCS = ROOT / "docs"
# The way in for those who read in the repository.
IN_REPOSITORY = DOCS / "README.md"
TREE = re.compile(r"^:::\{toctree\}\n(.*?)^:::$", re.MULTILINE | re.DOTALL)


def entries(page: Path) -> list[Path]:
    """The pages that a page's trees of contents name."""
    found = []
    for tree in TREE.findall(page.read_text()):
        names = [line for line in tree.splitlines() if line and not line.startswith(":")]
        found += [page.parent / f"{name}.md" for name in names]
    return found


def test_the_navigation_names_every_page_once() -> None:
    named, waiting = [DOCS / "index.md"], [DOCS / "index.md"]
    while waiting:
        own = entries(waiting.pop())
        named += own
        waiting += own
    assert sorted(named) == sorted(set(DOCS.rglob("*.md")) - {IN_REPOSITORY})


def test_the_way_in_within_the_repository_names_every_page() -> None:
    page = IN_REPOSITORY.relative_to(ROOT)
    named = {(DOCS / link.partition("#")[0]).resolve() for link in links(page)}
    apart = {DOCS / "index.md", IN_REPOSITORY, *entries(DOCS / "reference/python/README.md")}
    assert set(DOCS.rglob("*.md")) - apart <= named


def test_all_documented_packages_can_be_imported_and_say_what_they_are() -> None:
    for page in (DOCS / "reference/python").glob("*.md"):
        for name in re.findall(r"^\.\. automodule:: (.+)$", page.read_text(), re.MULTILINE):
            __import__(name)


def test_code_stays_code_and_other_marks_stay_as_they_are_written() -> None:
    assert marked(["The `place` of x * and |y|, z_."]) == [r"The ``place`` of x \* and \|y\|, z\_."]


def test_formulas_are_kept_as_they_stand_and_sections_are_left_alone() -> None:
    made = marked(["One has", "", "    a * b_", "", "and then", "", "Args:", "    x: of `y`."])
    assert made == [
        "One has", "", "::", "", "       a * b_", "", "", "and then", "",
        "Args:", "    x: of ``y``.",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ('<script src="https://cdn.example/x.js"></script>', 1),
        ('<link rel="stylesheet" href="//fonts.example/a.css">', 1),
        ("<style>@import 'https://fonts.example/a.css';</style>", 1),
        ('<p style="background: url(http://a.example/b.png)"></p>', 1),
        ('<a href="https://example.org">a link</a><img src="../_images/x.svg">', 0),
    ],
)
def test_what_is_fetched_from_elsewhere_is_found_and_links_are_not(
    tmp_path: Path, text: str, found: int
) -> None:
    page = tmp_path / "index.html"
    page.write_text(text)
    (tmp_path / "searchindex.js").write_text("")
    assert len(assets_elsewhere(page)) == found
    assert len(list(troubles(tmp_path))) == found


def test_a_folder_without_a_site_is_told(tmp_path: Path) -> None:
    assert len(list(troubles(tmp_path))) == 1
