"""The reference of the HTTP API names every route, field and code that there is."""

import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from auctune.domain.job_words import STATE_WORDS
from auctune.domain.training import PARAMETERS
from auctune.service.config.models import first_config
from auctune.service.http.errors import FIXED_RESPONSES
from auctune.service.http.schemas import MarketFields
from auctune.service.jobs.request import Lora, MarketTerms
from auctune.service.zones.auction.gateway import AuctionGateway
from auctune.service.zones.edge.gateway import EdgeGateway
from auctune.service.zones.spot.gateway import SpotGateway
from auctune.service.zones.timeshare.gateway import TimeshareGateway
from support.pages import blocks, rows
from support.serving import ROWS, make_zone, serving

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs/reference/api.md").read_text()
API = ROOT / "src/auctune/service"


@pytest.mark.parametrize("model", [MarketTerms, Lora, MarketFields])
def test_all_fields_of_the_market_are_named(model: type) -> None:
    fields = model.model_fields.keys() - PARAMETERS.keys()  # type: ignore[attr-defined]
    assert [name for name in fields if f"`{name}`" not in PAGE] == []


@pytest.mark.parametrize(
    "gateway",
    [AuctionGateway, SpotGateway, TimeshareGateway, EdgeGateway],
    ids=lambda one: one.kind,
)
def test_fields_that_a_kind_requires_or_refuses_are_in_the_table_of_kinds(gateway: Any) -> None:
    def cell(names: Iterable[str]) -> str:
        return ", ".join(f"`{name}`" for name in names) or "-"

    terms = gateway.terms
    row = f"| `{gateway.kind}` | {cell(terms.required)} | {cell(terms.unsupported)} |"
    assert row in PAGE.splitlines()


def test_all_states_are_listed_with_their_words() -> None:
    shown = {
        state: row.cells[1]
        for row in rows(Path("docs/reference/api.md"))
        if row.heading == "States of a job"
        for state in row.codes()
    }
    assert shown == dict(STATE_WORDS)


def test_all_codes_of_errors_are_named() -> None:
    found = set()
    for path in (API / "http").rglob("*.py"):
        calls = re.findall(r"ApiError\((.*?)\)\n", path.read_text(), re.DOTALL)
        found |= {code for call in calls for code in re.findall(r'"([a-z]+_[a-z_]+)"', call)}
    found |= {code for _, code, _, _ in FIXED_RESPONSES.values()}
    assert {"quote_changed", "file_in_use", "zone_paused"} <= found
    named = {*re.findall(r"`(\w+)`", PAGE)}
    # Beside codes there are types of errors, and names of fields.
    assert {code for code in found - named if not code.endswith(("_error", "_id"))} == set()


def test_all_routes_are_named() -> None:
    found = set()
    for path in (API / "http/routes").glob("*.py"):
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
        if f"{route}`" not in PAGE and f"`{last_parts(route)}`" not in PAGE
    ]
    assert missing == []


def last_parts(route: str) -> str:
    """What stands behind a route's last parameter."""
    return route.rpartition("}")[2]


def test_a_script_of_openais_runs_as_the_page_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "data.jsonl").write_text(ROWS)
    monkeypatch.chdir(tmp_path)
    first = first_config().model_copy(update={"zones": [make_zone()]})
    with serving(tmp_path / "market", first) as served:
        monkeypatch.setenv("OPENAI_BASE_URL", f"{served.url}/v1")
        monkeypatch.setenv("OPENAI_API_KEY", served.key("ada"))
        names: dict[str, Any] = {}
        for block in blocks(Path("docs/how-to/move-from-openai.md"), "py"):
            exec(block.text, names)
    assert names["job"].market["payment"] == names["quote"]["lines"][0]["price"]
