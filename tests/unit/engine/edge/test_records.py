"""Requests for slots by way of JSON."""

import json
from dataclasses import replace

from auctune.engine.edge.records import read_requests, requests_record
from support.edge_runs import make_request


def test_a_request_is_the_same_by_way_of_json() -> None:
    requests = [make_request(), replace(make_request(), until=1234.5)]
    assert read_requests(json.loads(json.dumps(requests_record(requests)))) == requests
