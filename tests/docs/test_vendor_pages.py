"""The pages on data vendors against the example and the code that they describe."""

import importlib.util
from pathlib import Path
from typing import Any

from auctune.engine.vendors import Action, DropReason
from auctune.service.vendors import Fault
from auctune.service.vendors.protocol import TRANSIENT
from support.pages import ROOT, rows

HOW_TO = Path("docs/how-to/run-a-vendor.md")
PROTOCOL = Path("docs/reference/vendor-protocol.md")


def load_example() -> Any:
    place = ROOT / "examples" / "vendor" / "app.py"
    spec = importlib.util.spec_from_file_location("example_vendor", place)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_page_lists_every_option_of_the_example() -> None:
    parser = load_example().make_parser()
    options = {name for action in parser._actions for name in action.option_strings}
    listed = {code for row in rows(HOW_TO) for code in row.codes()}
    assert listed == options - {"-h", "--help"}


def test_the_page_lists_every_fault_and_which_are_retried() -> None:
    listed = {
        row.codes()[0]: row.cells[2] == "yes" for row in rows(PROTOCOL) if row.heading == "Faults"
    }
    assert listed == {str(fault): fault in TRANSIENT for fault in Fault}


def test_the_page_lists_every_action_and_reason_of_a_report() -> None:
    text = (ROOT / PROTOCOL).read_text()
    for name in (*Action, *DropReason):
        assert f"`{name}`" in text


def test_the_example_has_the_routes_of_the_protocol() -> None:
    example = load_example()
    app = example.make_app(None, None, example.VendorToken("s" * 32), None)
    routes = {
        f"{method} {route.path.replace('{order}', '{id}')}"
        for route in app.routes
        for method in getattr(route, "methods", ())
        if route.path.startswith("/v3/")
    }
    calls = {
        row.codes()[0].partition("?")[0]
        for row in rows(PROTOCOL)
        if row.heading == "Vendor protocol"
    }
    # Those to URLs that the service has sent are not routes of the vendor.
    assert calls - {"GET", "POST"} == routes
