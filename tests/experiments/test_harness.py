"""What all figures rest on: intervals, jobs that are kept, markets, tables on the page."""

import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import polars as pl
import pytest

import run_all
from auctune.charts import to_svg
from auctune.domain import InputError
from auctune.numerics.estimates import mean_of
from auctune.sim.figures import read_csv, write_tables
from auctune.sim.sweep import Sweep
from harness.market import Trace, draw, setting
from harness.options import parse
from harness.trials import ATTAINABLE, LEARNED, Trial
from harness.utility_chart import UtilityCurve, utility_chart
from support.pages import ROOT
from support.refusal import refused_place

JOBS = """
import os, signal, sys
from dataclasses import dataclass
from pathlib import Path
from auctune.sim.jobs import run_jobs
from rich.console import Console

@dataclass(frozen=True)
class Square:
    number: int
    cost, code = 1.0, ()
    def key(self):
        return {"number": self.number}
    def run(self):
        if self.number == 3 and sys.argv[1] == "killed":
            os.kill(os.getpid(), signal.SIGKILL)
        with Path("ran.txt").open("a") as file:
            file.write(f"{self.number} ")
        return {"square": self.number**2}

if __name__ == "__main__":
    jobs = [Square(number) for number in (1, 2, 3, 4, 2)]
    workers = int(sys.argv[2])
    quiet = Console(quiet=True)
    results = run_jobs(jobs, Path("kept"), workers=workers, console=quiet)
    print([result["square"] for result in results])
"""


def jobs(folder: Path, mode: str, workers: int) -> subprocess.CompletedProcess[str]:
    (folder / "work.py").write_text(JOBS)
    environment = {"PYTHONPATH": str(ROOT / "experiments" / "pdftsp")}
    command = [sys.executable, "work.py", mode, str(workers)]
    return subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, check=False
    )


def test_what_was_done_before_a_kill_is_not_done_again(tmp_path: Path) -> None:
    assert jobs(tmp_path, "killed", 1).returncode == -9
    assert (tmp_path / "ran.txt").read_text() == "1 2 "
    done = jobs(tmp_path, "whole", 1)
    assert done.stdout == "[1, 4, 9, 16, 4]\n", done.stderr
    assert (tmp_path / "ran.txt").read_text() == "1 2 3 4 "


def test_several_processes_give_the_same(tmp_path: Path) -> None:
    assert jobs(tmp_path, "whole", 2).stdout == "[1, 4, 9, 16, 4]\n"
    assert sorted((tmp_path / "ran.txt").read_text().split()) == ["1", "2", "3", "4"]


def test_the_day_before_is_another_day_of_the_same_market() -> None:
    small = setting("small", {"nodes": "a100:1", "rate": "1", "slots": "12"})
    day, again = draw(small, 3), draw(small, 3)
    assert day.market.tasks == again.market.tasks
    assert day.before == again.before != day.market.tasks
    assert draw(small, 4).market.tasks != day.market.tasks


def test_a_logs_day_comes_after_its_history_at_one_scale_for_both() -> None:
    log = Trace(ROOT / "examples" / "workloads" / "jobs.csv")
    traced = setting("log", {"nodes": "a100:1", "rate": "4"}, log)
    first, second = draw(traced, 0), draw(traced, 1)
    # What the second day has as history is the first day: as many bids, but for rounding.
    assert len(second.before) == pytest.approx(len(first.market.tasks), rel=0.1)
    assert len(second.market.tasks) != pytest.approx(len(first.market.tasks), rel=0.1)


def test_days_that_share_jobs_are_one_block_and_leads_are_of_the_same_days() -> None:
    rows = [
        # Day 1 and day 8 are the same weekday; on each day learned prices lead by 0.1 or 0.3.
        {"seed": seed, "block": block, "entry": name, "ratio": base + lead * (name == LEARNED)}
        for seed, block, base, lead in ((0, 1, 0.2, 0.1), (1, 2, 0.6, 0.3), (2, 1, 0.4, 0.1))
        for name in (LEARNED, "eft")
    ]
    frame = pl.DataFrame(rows).with_columns(setting=pl.lit("log"))
    sweep = Sweep(frame)
    lead = sweep.leads("ratio", LEARNED)["log", "eft"]
    expected = mean_of([0.1, 0.3])
    assert (lead.value, lead.half_width) == pytest.approx((0.2, expected.half_width))
    assert sweep.means("ratio")["log", "eft"].value == pytest.approx((0.3 + 0.6) / 2)


def test_who_knows_a_day_is_another_trial_of_it() -> None:
    small = setting("small", {"nodes": "a100:1", "rate": "2", "slots": "12"})
    trial = Trial(small, 0, LEARNED)
    knowing = replace(trial, knows="counts")
    assert trial.key() != knowing.key()
    assert (trial.label, knowing.label) == (LEARNED, ATTAINABLE)


@pytest.mark.parametrize(
    ("arguments", "place"),
    [
        (["--seeds", "0"], "--seeds"),
        (["--market", "rate"], "--market"),
        (["--market", "seed=1"], "--market"),
        (["--mechanisms", "lots"], "--mechanisms lots"),
        (["--mechanisms", "ntm:seed=x"], "--mechanisms ntm:seed=x"),
        (["--trace", "log", "--start-day", "0"], "--start-day"),
    ],
)
def test_a_bad_option_is_named(arguments: list[str], place: str) -> None:
    assert refused_place(parse, arguments) == place


def test_tables_go_to_their_places_alone(tmp_path: Path) -> None:
    frame = pl.DataFrame({"bid": ["2.0"], "payment": ["1.0"]})
    frame.write_parquet(tmp_path / "fig11_rationality.parquet")
    page = tmp_path / "page.md"
    page.write_text("a\n<!-- fig11_rationality -->\nold\n<!-- end -->\nb\n<!-- end -->\n")
    figure = run_all.FIGURES["fig11_rationality"]
    write_tables(page, tmp_path, [figure])
    text = page.read_text()
    assert text.startswith("a\n<!-- fig11_rationality -->\n| winners |")
    assert text.endswith("| 1 | 0 | 50% | 50% to 50% |\n<!-- end -->\nb\n<!-- end -->\n")
    rows, notes = read_csv(tmp_path / "page" / "fig11_rationality.csv")
    assert (rows, notes) == (figure.table(frame), [])
    with pytest.raises(InputError, match=r"fig12_competitiveness.parquet: is not there"):
        write_tables(page, tmp_path, [run_all.FIGURES["fig12_competitiveness"]])
    page.write_text("nothing\n")
    with pytest.raises(InputError, match="has no place for fig11"):
        write_tables(page, tmp_path, [figure])


def test_the_page_has_places_of_figures_alone() -> None:
    places = re.findall(r"<!-- (\w+) -->\n\|", run_all.PAGE.read_text())
    assert places
    assert set(places) <= run_all.FIGURES.keys()


def test_each_bidder_has_a_panel_with_its_true_value() -> None:
    curves = [
        UtilityCurve(f"bidder {i}", rule, 2.0, (0.0, 2.0, 4.0), (0.0, 1.0, 1.0))
        for i in (1, 2)
        for rule in ("critical", "paper")
    ]
    svg = to_svg(utility_chart(curves))
    assert svg.count(">true value</text>") == 2
    assert svg.count(">bidder 2</text>") == 1
    assert svg.count(">paper</text>") == 1
