import re
import struct
import zlib

import numpy as np
import pytest

from auctune.charts import DARK, LIGHT, HeatGrid, heat_map, to_svg, utilization_map
from auctune.charts.heat_map import (
    encode_png,
    engineering_exponent,
    is_fine,
    price_map,
    round_step,
)
from auctune.charts.theme import SlotTimes, label_step

NODES = ("left", "right")
VALUES = np.array([[0.0, 12.0], [25.0, 49.9], [50.0, 100.0]])


def test_every_cell_has_its_colour_its_number_and_its_words() -> None:
    grid = HeatGrid(VALUES, NODES, "% in use", largest=100.0, decimals=0)
    svg = to_svg(heat_map(grid, ("#000001", "#000002"), LIGHT, width=400))
    assert svg.count('aria-roledescription="rect mark" d=') == 6
    for node, slot, value in (("left", 0, "0"), ("right", 1, "50"), ("right", 2, "100")):
        assert f"{node}, slot {slot}: {value} (% in use)" in svg
        assert f">{value}</text>" in svg
    # Two steps of colour: below 50, and from 50 on. One more of each stands in the legend.
    assert svg.count('fill="#000001"') == 4 + 1
    assert svg.count('fill="#000002"') == 2 + 1


def test_columns_are_called_what_they_are() -> None:
    grid = HeatGrid(VALUES, NODES, "% of weight", decimals=0, column="job")
    svg = to_svg(heat_map(grid, ("#000001", "#000002"), LIGHT, width=400))
    assert "right, job 1: 50 (% of weight)" in svg
    assert ">job</text>" in svg
    assert "slot" not in svg


def test_numbers_give_way_where_cells_are_narrow() -> None:
    values = np.full((48, 2), 7.0)
    svg = to_svg(utilization_map(values / 100, NODES, "memory", LIGHT, 340))
    assert ">7</text>" not in svg
    assert "left, slot 47: 7 (% of memory in use)" in svg


def test_a_large_market_is_one_image_with_axes_and_legend() -> None:
    nodes = tuple(f"n{i}" for i in range(200))
    values = np.linspace(0, 3e-7, 144 * 200).reshape(144, 200)
    assert is_fine(values)
    svg = to_svg(price_map(values, nodes, "sample"))
    assert svg.count("<image") == 1
    assert len(svg) < 200_000
    assert "money per billion samples" in svg
    assert ">n0</text>" in svg
    assert ">132</text>" in svg
    for label in ("50", "150", "250"):
        assert f">{label}</text>" in svg


def test_prices_of_an_idle_market_are_drawn_as_low_ones() -> None:
    prices = np.full((3, 2), 0.002)
    prices[0, 0] = 0.0
    darkest, lightest = LIGHT.price_ramp[-1], LIGHT.price_ramp[0]
    idle = to_svg(price_map(prices, NODES, "sample", LIGHT, 400, busiest=0.0))
    busy = to_svg(price_map(prices, NODES, "sample", LIGHT, 400, busiest=1.0))
    # One of each colour stands in the legend.
    assert (idle.count(f'fill="{lightest}"'), idle.count(f'fill="{darkest}"')) == (7, 1)
    assert (busy.count(f'fill="{lightest}"'), busy.count(f'fill="{darkest}"')) == (2, 6)


def test_one_price_everywhere_is_neither_high_nor_low() -> None:
    svg = to_svg(price_map(np.full((3, 2), 0.002), NODES, "sample", LIGHT, 400))
    # One of each colour stands in the legend.
    assert [
        svg.count(f'fill="{one}"') for one in (*LIGHT.price_ramp[:2], LIGHT.price_ramp[-1])
    ] == [
        1,
        1,
        1,
    ]


def test_figures_of_a_legend_are_short() -> None:
    svg = to_svg(price_map(np.array([[0.0, 4.0e-4]]), NODES, "sample", LIGHT, 400, busiest=0.02))
    assert "money per thousand samples" in svg
    assert not re.search(r">\d,\d{3}<", svg)


def test_columns_of_a_clock_are_labelled_by_their_beginnings() -> None:
    times = SlotTimes(start=1_800_000_000.0, seconds=3600.0)
    svg = to_svg(utilization_map(np.full((30, 2), 0.5), NODES, "compute", LIGHT, 400, times=times))
    # The times of a page are made of these, where a day begins its date.
    assert ">2027-01-15T08:00:00Z</text>" in svg
    assert "left, 2027-01-16T13:00:00Z: 50" in svg


def test_prices_of_nothing_are_drawn() -> None:
    svg = to_svg(price_map(np.zeros((3, 2)), NODES, "GB-slot", DARK, 400))
    assert "money per GB-slot" in svg
    assert svg.count(">0.0</text>") == 6


def test_values_must_fit_the_nodes() -> None:
    with pytest.raises(ValueError, match="2 nodes"):
        HeatGrid(np.zeros((3, 4)), NODES, "x")


def test_a_png_holds_each_level_in_its_colour() -> None:
    levels = np.array([[0, 1, 2], [2, 2, 0]], dtype=np.uint8)
    png = encode_png(levels, ["#000000", "#ff0000", "#00ff7f"], zoom=2)
    chunks, position = {}, 8
    while position < len(png):
        (length,) = struct.unpack(">I", png[position : position + 4])
        kind, data = png[position + 4 : position + 8], png[position + 8 : position + 8 + length]
        (check,) = struct.unpack(">I", png[position + 8 + length : position + 12 + length])
        assert check == zlib.crc32(kind + data)
        chunks[kind] = data
        position += 12 + length
    assert struct.unpack(">II", chunks[b"IHDR"][:8]) == (6, 4)
    assert chunks[b"PLTE"] == bytes.fromhex("000000ff000000ff7f")
    lines = np.frombuffer(zlib.decompress(chunks[b"IDAT"]), np.uint8).reshape(4, 7)
    assert (lines[:, 0] == 0).all()
    assert (lines[::2, 1::2] == levels).all()
    assert (lines[1::2, 2::2] == levels).all()


@pytest.mark.parametrize(
    ("largest", "exponent"), [(0, 0), (3e-7, -9), (0.02, -3), (1, 0), (999, 0), (1e4, 3), (1e30, 9)]
)
def test_units_leave_one_to_three_digits(largest: float, exponent: int) -> None:
    assert engineering_exponent(largest) == exponent


@pytest.mark.parametrize("least", [0.003, 0.7, 1.0, 6.1, 99.0, 1000.0])
def test_steps_are_round_and_just_large_enough(least: float) -> None:
    step = round_step(least)
    assert least <= step <= 1.6 * least
    assert float(f"{step:.2g}") == pytest.approx(step)


@pytest.mark.parametrize(("slots", "width", "step"), [(12, 400, 1), (12, 200, 2), (144, 400, 12)])
def test_slot_labels_do_not_touch(slots: int, width: int, step: int) -> None:
    assert label_step(slots, width) == step
