"""The tables of the experiments' pages are those that the experiments wrote."""

import re
from pathlib import Path

import pytest

from auctune.sim.figures import read_csv
from support.pages import ROOT

EXPLANATION = ROOT / "docs" / "explanation"
PAGES = sorted(EXPLANATION.glob("experiments-*.md"))


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_each_generated_table_is_the_one_of_its_file(page: Path) -> None:
    shown = dict(re.findall(r"<!-- (\w+) -->\n(.*?)<!-- end -->", page.read_text(), re.DOTALL))
    written = {path.stem: read_csv(path) for path in page.with_suffix("").glob("*.csv")}
    assert shown.keys() == written.keys()
    for name, (table, notes) in written.items():
        assert shown[name] == table.markdown(notes) + "\n"
