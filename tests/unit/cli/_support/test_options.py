"""How much of a long list is shown, and that there is more."""

import itertools

import pytest

from auctune.cli._support.options import take_newest


@pytest.mark.parametrize(("limit", "has_more"), [(3, True), (4, False), (5, False)])
def test_that_there_is_more_is_said_beside_the_list(
    capsys: pytest.CaptureFixture[str], limit: int, has_more: bool
) -> None:
    assert take_newest("abcd", limit, all_=False) == list("abcd"[:limit])
    shown = capsys.readouterr()
    assert (shown.out, "showing the newest 3; for more: --all" in shown.err) == ("", has_more)


def test_all_is_all_and_no_more_is_read_than_is_needed(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert take_newest("abcd", 1, all_=True) == list("abcd")
    assert capsys.readouterr().err == ""
    assert take_newest(itertools.count(), 2, all_=False) == [0, 1]
