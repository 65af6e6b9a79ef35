"""Commands whose module cannot be imported."""

from pathlib import Path

import pytest
import typer

import auctune.cli
from auctune.cli._support.lazy import Entry, lazy_group
from auctune.extras import missing_packages


@pytest.mark.parametrize("extras", [(), ("service", "train")])
def test_a_missing_module_is_a_defect_where_all_extras_are_installed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, extras: tuple[str, ...]
) -> None:
    (tmp_path / "defective.py").write_text("import no_such_package\n")
    monkeypatch.setattr(auctune.cli, "__path__", [*auctune.cli.__path__, str(tmp_path)])
    app = typer.Typer(cls=lazy_group({"run": Entry("defective:run", "", extras)}))
    app.callback()(lambda: None)
    assert missing_packages(*extras) == []
    with pytest.raises(ModuleNotFoundError, match="no_such_package"):
        app(["run"], standalone_mode=False)
