import json
import re
from dataclasses import replace
from decimal import Decimal
from html.parser import HTMLParser
from io import StringIO
from pathlib import Path

import numpy as np
import pytest
from rich.console import Console

from auctune.domain import Cell
from auctune.engine.console import render_summary
from auctune.engine.market.report import render_report, write_report
from auctune.engine.market.report_data import MarketReport, ReportTask, TaskState
from support.sample_report import make_report

HOSTILE = "<script>alert('x')</script>\"&[red]"


class PageReader(HTMLParser):
    """Collects tags, links and the text of cells; notes tags that do not match."""

    VOID = frozenset({"meta", "br", "img", "path", "rect", "line", "image", "use"})

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: list[str] = []
        self.links: list[str] = []
        self.texts: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.links += [value or "" for name, value in attrs if name in ("href", "src", "srcset")]
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.links += [value or "" for name, value in attrs if name in ("href", "src", "srcset")]

    def handle_endtag(self, tag: str) -> None:
        if tag not in self.VOID:
            assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.texts.append(data)


def read(page: str) -> PageReader:
    reader = PageReader()
    reader.feed(page)
    reader.close()
    assert not reader.open
    return reader


@pytest.fixture(scope="module")
def report() -> MarketReport:
    return make_report()


@pytest.fixture(scope="module")
def page(report: MarketReport) -> str:
    return render_report(report)


def test_every_task_appears_with_its_money(report: MarketReport, page: str) -> None:
    for task in report.tasks:
        row = re.search(rf'<th scope="row">{task.id}</th>(.*?)</tr>', page, re.DOTALL)
        assert row is not None
        assert f"{task.bid:.4f}" in row[1]
        if task.admitted:
            assert f"{task.payment:.4f}" in row[1]
    assert "bid not above the price; 1.9341 would have sufficed" in page
    assert "cannot be done by its deadline" in page
    assert "slot 9, 3 spare" in page


def test_totals_agree_with_the_tasks(report: MarketReport, page: str) -> None:
    totals = report.totals
    admitted = [task for task in report.tasks if task.admitted]
    assert totals.revenue == sum(task.payment for task in admitted)
    assert totals.welfare == sum(
        task.bid - task.vendor_price - task.operating_cost for task in admitted
    )
    assert float(totals.welfare) == pytest.approx(sum(t.value or 0 for t in admitted))
    assert totals.surplus == sum(task.market_price for task in admitted)
    for amount in (totals.welfare, totals.revenue, totals.vendor_cost, totals.surplus):
        assert f"<dd>{amount:.4f} <span" in page


def test_the_page_needs_nothing_from_outside(page: str) -> None:
    reader = read(page)
    assert "script" not in reader.tags
    assert "link" not in reader.tags
    adapters = [link for link in reader.links if not link.startswith("#")]
    assert sorted(adapters) == sorted(
        f"adapters/{name}"
        for name in (
            "haiku",
            "legal-summaries",
            "pt-en-medical-translation-v2",
            "sql-from-text",
            "support-replies",
        )
    )
    assert not re.search(r"url\((?!#)", page)
    assert "@import" not in page
    outside = set(re.findall(r"https?://[^\s\"'<]+", page))
    assert outside <= {"http://www.w3.org/2000/svg", "http://www.w3.org/1999/xlink"}


def test_all_charts_are_there_as_svg(page: str) -> None:
    # Seven charts, each for wide and for narrow screens, and the hatching.
    assert read(page).tags.count("svg") == 2 * 7 + 1
    ids = re.findall(r'\bid="([^"]+)"', page)
    assert len(ids) == len(set(ids))


def test_notes_and_repairs_are_told(page: str) -> None:
    assert "checkpoint 00000003 is damaged" in page
    assert "loss became infinite" in page
    assert "412 rows in, 409 out (completion), by house." in page
    assert "nearly as line 122" in page


@pytest.mark.slow
def test_hostile_names_stay_text(report: MarketReport) -> None:
    tasks = tuple(
        replace(
            task,
            id=f"{HOSTILE} {index}",
            adapter="javascript:alert(1)" if task.admitted else None,
            notes=(HOSTILE,),
        )
        for index, task in enumerate(report.tasks)
    )
    hostile = replace(
        report, title=HOSTILE, base=HOSTILE, mechanism=HOSTILE, tasks=tasks, notes=(HOSTILE,)
    )
    page = render_report(hostile)
    reader = read(page)
    assert "script" not in reader.tags
    assert any(f"{HOSTILE} 3" in text for text in reader.texts)
    assert not any(link.lower().startswith("javascript:") for link in reader.links)


@pytest.mark.parametrize("adapter", ["/etc/passwd", "../elsewhere", "a/../../b"])
def test_an_adapter_outside_the_reports_folder_is_refused(
    report: MarketReport, adapter: str
) -> None:
    with pytest.raises(ValueError, match="inside"):
        replace(report.tasks[0], adapter=adapter)


def test_json_comes_back_the_same(report: MarketReport) -> None:
    text = json.dumps(report.to_json(), allow_nan=False)
    again = MarketReport.from_json(json.loads(text))
    assert again.to_json() == report.to_json()
    assert again.tasks[0] == report.tasks[0]
    assert again.totals == report.totals
    np.testing.assert_array_equal(again.prices.compute, report.prices.compute)


def test_json_holds_money_as_text_with_four_decimals(report: MarketReport) -> None:
    values = report.to_json()
    first = values["tasks"][0]
    assert (first["id"], first["bid"], first["payment"]) == ("support-replies", "4.2000", "2.1840")
    assert first["min_bid"] == "2.1841"
    assert first["market_price"] == "1.7430"
    assert first["schedule"][0] == {"slot": 0, "node": "node-a"}
    assert values["totals"]["revenue"] == "12.4249"
    failed = next(task for task in values["tasks"] if task["state"] == "failed")
    assert failed["losses"][-1]["loss"] is None


def test_json_of_another_version_is_refused(report: MarketReport) -> None:
    with pytest.raises(ValueError, match="version 99"):
        MarketReport.from_json(report.to_json() | {"version": 99})


def test_what_does_not_fit_together_is_refused(report: MarketReport) -> None:
    with pytest.raises(ValueError, match="compute has shape"):
        replace(report, utilization=replace(report.utilization, compute=np.zeros((2, 2))))
    with pytest.raises(ValueError, match="is not in this market"):
        replace(report, nodes=(replace(report.nodes[0], id="x"), report.nodes[1]))
    with pytest.raises(ValueError, match="does not fit its decision"):
        replace(report.tasks[0], state=TaskState.REJECTED)


@pytest.mark.slow
@pytest.mark.parametrize("count", [0, 1])
def test_markets_with_next_to_nothing_are_shown(report: MarketReport, count: int) -> None:
    page = render_report(replace(report, tasks=report.tasks[:count], notes=()))
    read(page)
    assert ("No bid was made" in page) == (count == 0)
    assert f"{count} of {count} bids admitted" in page


@pytest.mark.slow
def test_a_market_that_admits_none_is_shown(report: MarketReport) -> None:
    page = render_report(
        replace(report, tasks=tuple(task for task in report.tasks if not task.admitted), notes=())
    )
    assert "0 of 2 bids admitted" in page
    assert "Loss by rows" not in page


@pytest.mark.slow
def test_the_file_is_written_whole(report: MarketReport, tmp_path: Path) -> None:
    path = tmp_path / "report.html"
    write_report(replace(report, tasks=()), path)
    assert path.read_text().endswith("</html>\n")
    assert [entry.name for entry in tmp_path.iterdir()] == ["report.html"]


def print_summary(report: MarketReport, width: int) -> list[str]:
    console = Console(file=StringIO(), width=width, color_system=None)
    console.print(render_summary(report))
    assert isinstance(console.file, StringIO)
    return [line.rstrip() for line in console.file.getvalue().splitlines()]


@pytest.mark.parametrize("width", [80, 99])
def test_the_summary_has_a_row_a_task_with_whole_numbers(report: MarketReport, width: int) -> None:
    lines = print_summary(report, width)
    assert max(map(len, lines)) <= width
    title, header, totals, notes = 1, 1, 2, 1
    assert len(lines) == title + header + len(report.tasks) + totals + notes
    for task in report.tasks:
        row = next(line for line in lines if line.startswith(task.id[:10]))
        assert f"{task.bid:.4f}" in row
        if task.admitted:
            assert f"{task.payment:.4f}" in row
    text = "\n".join(lines)
    assert "welfare 19.1820, revenue 12.4249" in text
    assert "infeasible" in text


def test_names_in_brackets_are_no_markup(report: MarketReport) -> None:
    task = ReportTask(
        id="[red]x[/red]",
        state=TaskState.PLANNED,
        arrival=0,
        deadline=1,
        bid=Decimal(1),
        schedule=(Cell(0, "node-a"),),
    )
    assert any("[red]x[/red]" in line for line in print_summary(replace(report, tasks=(task,)), 90))
