"""The reference of the HTTP API names every route, field and code that there is."""

import re
from pathlib import Path

import pytest

from auctune.service.api.answers import MarketPart
from auctune.service.jobs.request import Lora, Terms

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs/reference/api.md").read_text()
API = ROOT / "src/auctune/service"


@pytest.mark.parametrize("model", [Terms, Lora, MarketPart])
def test_all_fields_of_the_market_are_named(model: type) -> None:
    fields = model.model_fields  # type: ignore[attr-defined]
    assert [name for name in fields if f"`{name}`" not in PAGE] == []


def test_all_codes_of_errors_are_named() -> None:
    found = set()
    for path in (API / "api").rglob("*.py"):
        text = path.read_text()
        found |= set(
            re.findall(r'(?:ApiError|answer_error)\([^)]*?\d{3},[^)]*?"([a-z]+_[a-z_]+)"', text)
        )
    assert {"quote_changed", "file_in_use", "zone_paused"} <= found
    assert [code for code in sorted(found) if f"`{code}`" not in PAGE] == []


def test_all_routes_are_named() -> None:
    found = set()
    for path in (API / "api/routes").glob("*.py"):
        text = path.read_text()
        prefix = re.search(r'APIRouter\(prefix="([^"]*)"', text)
        assert prefix is not None or path.name == "__init__.py"
        if prefix is not None:
            found |= {
                prefix[1] + route for route in re.findall(r'@router\.\w+\(\s*"([^"]*)"', text)
            }
    assert len(found) > 30
    # A row of a table names what several routes have in common once.
    missing = [
        route
        for route in sorted(found)
        if f"{route}`" not in PAGE and f"`/{route.rpartition('/')[2]}`" not in PAGE
    ]
    assert missing == []
