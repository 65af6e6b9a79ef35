"""A market file that changes while its run starts."""

from pathlib import Path

import pytest

from auctune.domain import InputError
from auctune.standalone import market
from auctune.standalone.market import run_market
from support.market_runs import quiet, write_market


def test_a_market_file_that_changes_while_it_is_read_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write_market(tmp_path / "market")

    def change() -> None:
        path.write_text(path.read_text().replace("Small market", "Another market"))

    # The file has been read then, and not copied.
    monkeypatch.setattr(market, "start_fork_server", change)
    with pytest.raises(InputError, match=r"was changed while it was read; expected a file that st"):
        run_market(path, tmp_path / "out", quiet())
    assert not (tmp_path / "out").exists()
