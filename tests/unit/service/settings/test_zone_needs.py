"""What zones need is what their settings say of nodes and vendors."""

from auctune.service.settings.auction_entry import AuctionEntry
from auctune.service.settings.zone_needs import DeviceNeed


def test_an_auction_needs_the_devices_that_nodes_have_and_no_others() -> None:
    entry = AuctionEntry.model_validate(
        {
            "node_types": {"gpu": {"device": "cuda:1", "profile": "p.json"}, "spare": {}},
            "nodes": [{"id": "a", "type": "gpu"}],
            "vendors": [{"name": "far", "url": "https://far.example", "secret_file": "s"}],
        }
    )
    needs = entry.needs()
    assert needs.devices == (DeviceNeed("node_types.gpu", "cuda:1", "p.json", 1),)
    assert needs.vendors == {"far": "https://far.example"}
