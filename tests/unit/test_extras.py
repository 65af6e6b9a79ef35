"""Commands that install missing packages."""

import re
from pathlib import Path

from auctune.extras import install_command, required_packages


def test_an_extra_is_installed_by_its_packages() -> None:
    command = install_command("spot", "service")
    assert command.startswith("pip install 'statsforecast>=")
    assert "'psycopg[binary]>=" in command
    names = {one.name for one in required_packages()}
    assert {"httpx2", "packaging"} <= names
    assert not names & {"numpy", "torch", "ray", "pytest", "fastapi"}
    assert {"numpy", "sqlalchemy"} <= {one.name for one in required_packages("service")}


def test_nothing_installs_auctune_from_an_index() -> None:
    root = Path(__file__).parents[2]
    folders = ("src", "docs", "examples", "experiments", "benchmarks")
    files = [path for name in folders for path in (root / name).rglob("*")]
    texts = {
        path: path.read_text()
        for path in [*root.glob("*.md"), *files]
        if path.suffix in (".py", ".md", ".yaml", ".toml", ".html")
    }
    asks = re.compile(r"pip install [^\n`]*auctune(\[|['\"\s`]|$)", re.MULTILINE)
    assert len(texts) > 500
    assert [path for path, text in texts.items() if asks.search(text)] == []
