"""The page on `auctune doctor` against its checks."""

from pathlib import Path

from auctune.doctor import CHECKS
from support.pages import rows

PAGE = Path("docs/how-to/check-an-installation.md")


def test_the_page_lists_every_check_in_its_order() -> None:
    listed = [row.codes()[0] for row in rows(PAGE) if row.heading == "What is checked"]
    assert listed == [check.name for check in CHECKS]
