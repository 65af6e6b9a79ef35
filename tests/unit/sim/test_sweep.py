"""Means, ratios and paired differences of trials."""

import numpy as np
import polars as pl
import pytest

from auctune.numerics.estimates import mean_of, ratio_of
from auctune.sim.sweep import Sweep, cell_text, intervals, table_of

ROWS = [
    ("quiet", 0, "own", 6.0, 10.0),
    ("quiet", 0, "eft", 5.0, 10.0),
    ("quiet", 1, "own", 9.0, 20.0),
    ("quiet", 1, "eft", 6.0, 20.0),
    ("busy", 0, "own", 3.0, 4.0),
    ("busy", 0, "eft", None, 4.0),
]
FRAME = pl.DataFrame(ROWS, ("setting", "seed", "entry", "welfare", "bound"), orient="row")
SWEEP = Sweep(FRAME)


def test_cells_stand_in_the_order_of_the_trials_and_those_without_figures_are_left_out() -> None:
    assert (SWEEP.settings, SWEEP.entries) == (["quiet", "busy"], ["own", "eft"])
    means = SWEEP.means("welfare")
    assert list(means) == [("quiet", "own"), ("quiet", "eft"), ("busy", "own")]
    assert means["quiet", "own"] == mean_of([6.0, 9.0])
    assert means["busy", "own"].half_width is None


def test_ratios_are_of_means() -> None:
    ratio = SWEEP.ratios("welfare", "bound")["quiet", "eft"]
    assert ratio == ratio_of(np.array([5.0, 6.0]), np.array([10.0, 20.0]))
    assert Sweep(FRAME.with_columns(bound=0.0)).ratios("welfare", "bound") == {}


def test_leads_are_differences_on_the_same_seeds() -> None:
    leads = SWEEP.leads("welfare", "own")
    assert leads == {("quiet", "eft"): mean_of([1.0, 3.0])}
    # Whatever order the trials of a setting came in.
    assert Sweep(FRAME.reverse()).leads("welfare", "own")["quiet", "eft"].value == 2.0


def test_seeds_of_a_block_count_once() -> None:
    blocks = FRAME.with_columns(block=pl.lit(1))
    assert Sweep(blocks).means("welfare")["quiet", "own"] == mean_of([7.5])


def test_a_table_has_a_column_a_setting_and_a_chart_a_dot_a_cell() -> None:
    means = SWEEP.means("welfare")
    lines = {name: cell_text(means, name, ".1f") for name in SWEEP.entries}
    table = table_of("load", SWEEP.settings, lines)
    assert table.heads == ("load", "quiet", "busy")
    half = means["quiet", "own"].half_width
    assert table.rows[0] == ("own", f"7.5 ±{half:.1f}", "3.0")
    assert table.rows[1][2] == "-"
    shown = intervals(means, str.upper)
    assert (shown[0].setting, shown[0].series, shown[0].mean) == ("quiet", "OWN", 7.5)
    assert shown[0].high - shown[0].mean == pytest.approx(half)
