"""How much of a long list is shown, and that there is more."""

import itertools

import pytest

from auctune.cli.listing import newest


@pytest.mark.parametrize(("limit", "has_more"), [(3, True), (4, False), (5, False)])
def test_that_there_is_more_is_said_beside_the_list(
    capsys: pytest.CaptureFixture[str], limit: int, has_more: bool
) -> None:
    assert newest("abcd", limit, everything=False) == list("abcd"[:limit])
    shown = capsys.readouterr()
    assert (shown.out, "the newest 3, and there are more: --all" in shown.err) == ("", has_more)


def test_all_is_all_and_no_more_is_read_than_is_needed(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert newest("abcd", 1, everything=True) == list("abcd")
    assert capsys.readouterr().err == ""
    assert newest(itertools.count(), 2, everything=False) == [0, 1]
