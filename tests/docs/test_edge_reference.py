"""The reference of the edge's files against the code that reads and writes them."""

import json
from dataclasses import fields
from pathlib import Path

from auctune.domain.training import PARAMETERS
from auctune.edge import AntMan, ErisEntry, ErisParams, Liquid, Tiresias
from auctune.engine.edge.inputs import TrainingTable, read_training
from auctune.sim.edge.comparison import bound_of, play, report
from auctune.sim.edge.decision_file import edge_decision_json
from auctune.sim.edge.instance_file import (
    EdgeInstanceModel,
    JobModel,
    LogisticModel,
    SiteModel,
    TableModel,
    parse_edge_instance,
    read_edge_instance,
)
from auctune.sim.edge.settings import EdgeSetting, paper_testbed
from auctune.standalone.edge_report import JobBill
from support.pages import ROOT, blocks, rows

PAGE = Path("docs/reference/edge-files.md")


def cells(heading: str) -> list[list[str]]:
    found = [
        [cell.strip("`") for cell in row.cells] for row in rows(PAGE) if row.heading == heading
    ]
    assert found, heading
    return found


def names(heading: str) -> list[str]:
    return [row[0] for row in cells(heading)]


def test_fields_are_those_of_the_models() -> None:
    assert names("Instance") == list(EdgeInstanceModel.model_fields)
    assert names("Site") == list(SiteModel.model_fields)
    assert names("Job") == list(JobModel.model_fields)
    logistic, table = (row[1] for row in cells("Utility"))
    for model, shown in ((LogisticModel, logistic), (TableModel, table)):
        for name in set(model.model_fields) - {"form"}:
            assert f"`{name}`" in shown or name == shown.split("`")[0]


def test_the_instance_shown_can_be_read_and_its_decision_and_report_are_as_shown() -> None:
    (block,) = blocks(PAGE, "json")
    instance = parse_edge_instance(json.loads(block.text))
    played = play("eris", ErisEntry(), instance)
    assert names("Decisions") == list(edge_decision_json(played.decisions[0]))
    figures = report(instance, played, bound_of(instance, "lp", 1.0))
    assert names("Report") == list(figures)


def test_settings_have_their_defaults() -> None:
    shown = {row[0]: row[1:3] for row in cells("Synthetic settings")}
    columns = (EdgeSetting(), paper_testbed())
    expected = {
        field.name: [repr(getattr(one, field.name)) for one in columns]
        for field in fields(EdgeSetting)
    }
    assert shown == expected


def test_mechanisms_have_their_settings_with_defaults() -> None:
    shown: dict[str, dict[str, str]] = {}
    name = ""
    for row in cells("Mechanisms"):
        name = row[0] or name
        shown.setdefault(name, {})[row[1]] = row[2]
    kinds = {"eris": ErisParams, "tiresias": Tiresias, "antman": AntMan, "liquid": Liquid}
    for kind, params in kinds.items():
        made = params()
        expected = {field.name: getattr(made, field.name) for field in fields(params)}
        assert shown[kind] == {key: "none" if v is None else f"{v}" for key, v in expected.items()}
    assert set(shown) == set(kinds)


def test_training_file_lists_each_key_with_its_default() -> None:
    shown = {row[0]: row[1] for row in cells("TRAINING.toml") if len(row) == 3}
    own = {k: field for k, field in TrainingTable.model_fields.items() if k not in PARAMETERS}
    assert shown == {name: json.dumps(field.default) for name, field in own.items()}


def test_report_of_a_run_lists_the_fields_of_a_bill() -> None:
    bill = [field.name for field in fields(JobBill)]
    assert names("Folder of a run")[-len(bill) :] == bill


def test_the_example_of_a_training_file_can_be_read() -> None:
    jobs = read_edge_instance(ROOT / "examples/edge/instance.json").jobs
    trainings = read_training(ROOT / "examples/edge/training.toml", jobs)
    assert trainings["trains"].config.rank != trainings["ships"].config.rank
