"""The pages of the experiments say in prose only numbers that a generated table has.

A generated table stands between `<!-- NAME -->` and `<!-- end -->`. Every other number of these
pages with a percent sign, a ± or a decimal point must be in one of them, as it is written there, or
be the paper's own: those are in the column "the paper" of reproduction.md. Code, links and headings
do not count.
"""

import re
from pathlib import Path

import pytest

from support.pages import ROOT

EXPLANATION = ROOT / "docs" / "explanation"
REPRODUCTION = EXPLANATION / "reproduction.md"
PAGES = sorted(EXPLANATION.glob("experiments-*.md"))

# What is set, not measured: in the papers, in workloads, as a goal.
SETTINGS = (
    *("arXiv 2512.20967", "95% confidence interval", "95% interval", "middle 80%"),
    *("mu_1 = 0.9", "mu_2 = 0.95", "v = 1.5 L", "v is 1.1 L", "g = 1.5", "3.06 USD", "0.9731 spot"),
    *("= [0.7, 1.0]", "70 to 100% of a node", "25% of a node", "40% at most"),
    *("0.07% of a typical value", "0.07% as shipped", "0.93 of the bound", "at most 1.15"),
    *("100 / 69 / 51.5", "exploring 0.53 of the time", "0.02, 0.1 and 0.53"),
    *("0.02, 0.05, 0.1, 0.2, 0.4 and 0.53", "8,000 batches are 0.53"),
    *("0.90 of the clairvoyant bound", "the goal is 0.97", "the goal of 0.909"),
)
GENERATED = re.compile(r"<!-- \w+ -->\n.*?<!-- end -->", re.DOTALL)
IGNORED = re.compile(r"^```.*?^```$|^#.*?$|`[^`]*`|!?\[[^\]]*\]\([^)]*\)", re.MULTILINE | re.DOTALL)
NUMBER = re.compile(r"(± ?)?(?<![\w.])(\d+(?:,\d{3})*(?:\.\d+)?)( ?%)?(?=( ?±)?)")


def numbers(text: str, *, results_only: bool = False) -> list[str]:
    """Numbers without their signs, as `0.91`, `31.5%`; or those alone that look like results."""
    found = []
    for match in NUMBER.finditer(text):
        plus_minus, digits, percent, then_plus_minus = match.groups()
        if not results_only or plus_minus or percent or then_plus_minus or "." in digits:
            found.append(digits + ("%" if percent else ""))
    return found


def cut_the_papers(text: str) -> tuple[str, str]:
    """Return a page without its columns "the paper", and what these hold."""
    rest, cells, column = [], [], -1
    for line in text.splitlines():
        row = line.split("|")
        heads = [cell.strip() for cell in row]
        if len(row) == 1 or "the paper" in heads:
            column = heads.index("the paper") if "the paper" in heads else -1
        elif column >= 0:
            cells.append(row.pop(column))
        rest.append("|".join(row))
    return "\n".join(rest), "\n".join(cells)


def in_prose(text: str) -> list[tuple[int, str]]:
    """Return (line, number) of what a page says beside its generated tables."""
    for pattern in (GENERATED, IGNORED):
        text = pattern.sub(lambda match: "\n" * match[0].count("\n"), text)
    for setting in SETTINGS:
        text = text.replace(setting, "")
    lines = enumerate(text.splitlines(), start=1)
    return [(line, one) for line, said in lines for one in numbers(said, results_only=True)]


@pytest.fixture(scope="module")
def known() -> set[str]:
    tables = [table for page in PAGES for table in GENERATED.findall(page.read_text())]
    return set(numbers("\n".join([*tables, cut_the_papers(REPRODUCTION.read_text())[1]])))


@pytest.mark.parametrize("page", [*PAGES, REPRODUCTION], ids=lambda page: page.stem)
def test_prose_repeats_only_numbers_of_generated_tables(page: Path, known: set[str]) -> None:
    text = page.read_text()
    said = in_prose(cut_the_papers(text)[0] if page == REPRODUCTION else text)
    assert [(line, number) for line, number in said if number not in known] == []


def test_of_a_page_prose_alone_is_read_and_of_that_what_looks_like_a_result() -> None:
    page = "# 1.1%\n`2.2`, 3 of 4, +5%, [6.6](a)\n<!-- a -->\n7.7%\n<!-- end -->\n8.8 ±9, g = 1.5"
    assert in_prose(page) == [(2, "5%"), (6, "8.8"), (6, "9")]
    table = "| a | the paper |\n| --- | --- |\n| 1.5 | +30.78% |\n\n2.5 | 3.5"
    rest, papers = cut_the_papers(table)
    assert (numbers(rest), numbers(papers)) == (["1.5", "2.5", "3.5"], ["30.78%"])
