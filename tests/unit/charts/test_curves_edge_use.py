"""The chart of what is sold of an edge market."""

from typing import Any

import numpy as np
import pytest

from auctune.charts.curves import edge_use_chart
from auctune.charts.render import to_svg


def test_each_resource_is_a_line_to_the_end_of_the_last_slot() -> None:
    use = {"gpu": np.array([0.0, 0.5]), "data": np.array([1.0, 0.25])}
    spec: dict[str, Any] = edge_use_chart(use).to_dict()
    (values,) = spec["datasets"].values()
    by_name = {name: [(v["slot"], v["share"]) for v in values if v["what"] == name] for name in use}
    assert by_name["gpu"] == [(0, 0.0), (1, 0.5), (2, 0.5)]
    assert by_name["data"] == [(0, 1.0), (1, 0.25), (2, 0.25)]
    assert to_svg(edge_use_chart(use)).startswith("<svg")


def test_nothing_is_no_chart() -> None:
    with pytest.raises(ValueError, match="one resource at least"):
        edge_use_chart({})
