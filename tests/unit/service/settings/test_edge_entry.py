"""Zones of kind `edge` in auctune.toml: what is wrong is named, what is right makes a market."""

from pathlib import Path

import pytest

from auctune.domain import InputError
from auctune.service.settings.edge_entry import EdgeEntry, read_supply
from auctune.service.settings.service_file import read_service_file

EXAMPLE = Path(__file__).parents[4] / "examples" / "edge" / "zone.toml"


def read(folder: Path, *lines: str) -> EdgeEntry:
    path = folder / "auctune.toml"
    path.write_text("\n".join(("[[zones]]", 'kind = "edge"', *lines)))
    (entry,) = read_service_file(path).zones
    assert isinstance(entry, EdgeEntry)
    return entry


def test_a_zone_is_the_market_that_its_log_makes_again(tmp_path: Path) -> None:
    entry = read(tmp_path, 'pricing = { kind = "paper", base = { cpu = 50.0, data = 20.0 } }')
    assert read_supply(entry.record()) == (entry.market, entry.params)
    assert entry.market.site_ids == ("site-a", "site-b")
    assert entry.params.pricing == "paper"


def test_the_example_is_such_a_zone() -> None:
    (entry,) = read_service_file(EXAMPLE).zones
    assert isinstance(entry, EdgeEntry)
    assert entry.market.site_ids == ("north", "south")
    assert entry.needed_base is None


@pytest.mark.parametrize(
    ("lines", "place"),
    [
        (('base = "tiny"',), "base"),
        (('dtype = "float32"',), "dtype"),
        (("nodes = []",), "nodes"),
        (("sites = []",), "sites"),
        (('sites = [{ id = "a", capacity = { cpu = -1.0 } }]',), "capacity"),
        (('sites = [{ id = "a/b", capacity = { cpu = 1.0 } }]',), "id"),
        (
            ('sites = [{ id = "a", capacity = { x = 1 } }, { id = "a", capacity = { x = 1 } }]',),
            "sites[1].id",
        ),
        (("worker = { gpu = 1.0 }",), "worker.gpu"),
        (("worker = { cpu = 0.0 }",), "worker"),
        (("server = { gpu = 1.0 }",), "server.gpu"),
        (("pricing = { base = { cpu = 9.0 } }",), "pricing.base"),
        (('pricing = { kind = "paper", base = { gpu = 9.0 } }',), "gpu"),
        (("spare = 1.0",), "spare"),
        (('ray = { address = "nowhere" }',), "address"),
        (('ray = { address = "head:1" }', 'device = "cuda:1"'), "device"),
        (('ray = { address = "head:1" }', 'device = "cuda"'), "worker.gpu"),
    ],
)
def test_what_is_wrong_is_named(lines: tuple[str, ...], place: str, tmp_path: Path) -> None:
    with pytest.raises(InputError) as refused:
        read(tmp_path, *lines)
    assert place in refused.value.place
