"""The command line as a user meets it: exit codes, one line of error, nothing half done."""

import json
import os
import subprocess
import sys
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path

import pytest
import typer

from auctune.cli import app as app_module
from auctune.cli._support.errors import exit_code_of
from auctune.domain import CheckpointError, Cluster, InputError, Node, NodeType, Task
from auctune.sim.instance import Instance
from auctune.sim.instance_file import write_instance
from support.command_line import all_commands
from support.one_fork_server import in_another_process, is_loaded

Run = Callable[..., tuple[int, str, list[str]]]


@pytest.fixture
def market(tmp_path: Path) -> Path:
    cluster = Cluster(2, 60.0, 1.0, {"gpu": NodeType(10.0, 8.0, (0.1, 0.2))}, (Node("n", "gpu"),))
    task = Task("t", 0, 1, 5.0, 1.0, Decimal("3.5000"), {"gpu": 5.0})
    path = tmp_path / "market.json"
    write_instance(Instance(cluster, (task,)), path)
    return path


@pytest.fixture
def simulate(auctune: Run, market: Path) -> Run:
    files = ("--decisions", market.with_name("d.jsonl"), "--report", market.with_name("r.json"))

    def run(*more: str | Path) -> tuple[int, str, list[str]]:
        return auctune("simulate", market, *files, *more)

    return run


def test_a_simulation_writes_decisions_and_report_and_shows_a_table(
    simulate: Run, market: Path
) -> None:
    code, shown, _ = simulate("--mechanism", "eft")
    assert (code, "3.4500" in shown) == (0, True)
    line = json.loads(market.with_name("d.jsonl").read_text())
    assert line == {
        "task": "t",
        "admitted": True,
        "vendor": None,
        "payment": 3.5,
        "value": 3.45,
        "surplus": 3.45,
        "schedule": [{"slot": 0, "node": "n"}],
        "reason": None,
    }
    assert json.loads(market.with_name("r.json").read_text())["welfare"] == 3.45


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--mechanism", "fifo"), "--mechanism: 'fifo' is not offered; expected one of pdftsp"),
        (("--mechanism", "eft", "--bound", "x"), "--bound: 'x' is not offered; expected one of"),
        (("--mechanism", "eft", "--history", "x"), "--history: eft with these settings cannot"),
        (
            ("--compare", "eft,ntm:seed=1", "--history", "x"),
            "--history: eft or ntm:seed=1 with these s",
        ),
        ((), "--mechanism: is missing; expected a mechanism, or several by --compare"),
        (
            ("--compare", "eft", "--mechanism", "ntm"),
            "--mechanism: cannot be combined with --compare",
        ),
        (("--compare", "eft", "--set", "seed=1"), "--set: cannot be combined with --compare; exp"),
        (("--compare", "eft,fifo"), "--compare fifo: 'fifo' is not offered; expected one of pdft"),
        (("--compare", "ntm:seed=x"), "--compare ntm:seed=x: seed: 'x'; expected a whole number"),
        (("--compare", "eft,"), "--compare: '' has no name; expected MECHANISM[:KEY=VAL"),
        (("--compare", "ntm:seed"), "--compare: 'seed' in 'ntm:seed'; expected MECHANISM[:KEY="),
        (
            ("--compare", "ntm:seed=1:seed=2"),
            "--compare: 'seed' is repeated in 'ntm:seed=1:seed=2'",
        ),
        (("--compare", "eft,ntm,eft"), "--compare: 'eft' is given twice; expected each once"),
        (
            ("--compare", "eft", "--decisions", "market.json"),
            "market.json: is read by this command",
        ),
        (
            ("--compare", "eft", "--decisions", "no/d"),
            "no/d: cannot be created (No such file or dir",
        ),
        (
            ("--mechanism", "eft", "--charts", "no/c"),
            "no/c: cannot be created (No such file or dir",
        ),
        (("--mechanism", "eft", "--charts", "market.json"), "market.json: is read by this command"),
        (
            ("--mechanism", "eft", "--set", "seed=1"),
            "--set seed: is not a setting of this mechanism",
        ),
        (("--mechanism", "ntm", "--set", "seed=x"), "--set seed: 'x'; expected a whole number"),
        (("--mechanism", "ntm", "--set", "seed"), "--set: 'seed'; expected KEY=VALUE"),
        (("--mechanism", "ntm", *("--set", "seed=1") * 2), "--set: 'seed' is given twice"),
        (("--mechanism", "eft", "--report", "."), ".: is no regular file; expected a file to"),
        (("--mechanism", "eft", "--report", "no/r.json"), "no/r.json: cannot be written (No such"),
        (("--mechanism", "eft", "--report", "d.jsonl"), "d.jsonl: is given twice; expected a file"),
        (("--mechanism", "eft", "--report", "market.json"), "market.json: is read by this command"),
    ],
)
def test_bad_input_is_one_line_and_exit_code_2_and_leaves_nothing(
    simulate: Run,
    market: Path,
    monkeypatch: pytest.MonkeyPatch,
    arguments: tuple[str, ...],
    message: str,
) -> None:
    monkeypatch.chdir(market.parent)
    before = market.read_bytes()
    code, out, errors = simulate(*arguments)
    assert (code, out, len(errors)) == (2, "", 1)
    assert errors[0].startswith(f"auctune: {message}")
    assert list(market.parent.iterdir()) == [market]
    assert market.read_bytes() == before


def test_a_mechanism_needs_a_place_for_its_decisions(auctune: Run, market: Path) -> None:
    report = ("--report", market.with_name("r.json"))
    code, _, errors = auctune("simulate", market, "--mechanism", "eft", *report)
    assert code == 2
    assert errors[0].startswith("auctune: --decisions: is missing; expected a file")


@pytest.mark.slow
def test_mechanisms_are_compared_in_one_table_and_one_report(auctune: Run, market: Path) -> None:
    report, plans, charts = (market.with_name(name) for name in ("r.json", "plans", "charts"))
    files = ("--report", report, "--decisions", plans, "--charts", charts)
    names = "eft,pdftsp:pricing=paper:scale=0.5,titan"
    code, shown, _ = auctune("simulate", market, "--compare", names, "--bound", "milp", *files)
    assert code == 0
    for words in ("pricing=paper", "titan", "100.0%", "bound (milp): 3, the optimum"):
        assert words in shown
    data = json.loads(report.read_text())
    assert data["bound"]["kind"] == "milp"
    assert data["bound"]["value"] == pytest.approx(3.45, abs=1e-4)
    assert [(one["name"], one["settings"]) for one in data["mechanisms"]] == [
        ("eft", {}),
        ("pdftsp:pricing=paper:scale=0.5", {"pricing": "paper", "scale": "0.5"}),
        ("titan", {}),
    ]
    assert data["mechanisms"][0]["bound"]["ratio"] == pytest.approx(1, abs=1e-4)
    assert sorted(path.name for path in plans.iterdir()) == [
        "eft.jsonl",
        "pdftsp,pricing=paper,scale=0.5.jsonl",
        "titan.jsonl",
    ]
    assert json.loads((plans / "eft.jsonl").read_text())["admitted"] is True
    stems = ("welfare", "cumulative-welfare", "use")
    assert {path.name for path in charts.iterdir()} == {
        f"{stem}.{kind}" for stem in stems for kind in ("svg", "png")
    }
    assert (charts / "use.svg").read_text().startswith("<svg")
    assert (charts / "use.png").read_bytes().startswith(b"\x89PNG")


def test_one_mechanism_has_a_bound_and_charts_too(simulate: Run, market: Path) -> None:
    charts = market.with_name("charts")
    code, shown, _ = simulate("--mechanism", "eft", "--bound", "milp", "--charts", charts)
    assert (code, "bound (milp, the optimum)" in shown) == (0, True)
    assert json.loads(market.with_name("r.json").read_text())["bound"]["exact"] is True
    assert "eft: welfare 3.45, 100.0% of the optimum" in (charts / "welfare.svg").read_text()


def test_a_linear_bound_says_that_it_is_one(simulate: Run, market: Path) -> None:
    code, shown, _ = simulate("--mechanism", "eft", "--bound", "lp")
    assert (code, "bound (lp)" in shown) == (0, True)
    bound = json.loads(market.with_name("r.json").read_text())["bound"]
    assert (bound["kind"], bound["exact"]) == ("lp", False)
    assert 3.45 <= bound["value"] <= 3.5


def test_a_market_too_large_for_its_optimum_is_refused_and_leaves_nothing(
    simulate: Run, market: Path
) -> None:
    data = json.loads(market.read_text())
    data["nodes"] = [{"id": f"n{i}", "type": "gpu"} for i in range(10_001)]
    market.write_text(json.dumps(data))
    code, _, (error,) = simulate("--mechanism", "eft", "--bound", "milp")
    assert code == 2
    assert error.startswith(
        "auctune: --bound: milp is out of reach for 20,002 cells (task, slot, n"
    )
    assert list(market.parent.iterdir()) == [market]


def test_a_malformed_instance_is_named_by_file_and_field(simulate: Run, market: Path) -> None:
    data = json.loads(market.read_text())
    data["tasks"][0]["arrival"] = 5
    market.write_text(json.dumps(data))
    code, _, errors = simulate("--mechanism", "eft")
    found = "tasks[0].deadline: 1 is before arrival 5; expected a slot >= arrival"
    assert (code, errors) == (2, [f"auctune: {market}: {found}"])


def test_a_failed_run_leaves_earlier_results_alone(simulate: Run, market: Path) -> None:
    assert simulate("--mechanism", "eft")[0] == 0
    files = [market.with_name(name) for name in ("d.jsonl", "r.json")]
    before = [file.read_bytes() for file in files]
    market.write_text("{}")
    assert simulate("--mechanism", "eft")[0] == 2
    assert [file.read_bytes() for file in files] == before


def test_the_version_is_shown(auctune: Run) -> None:
    code, shown, _ = auctune("--version")
    assert (code, shown[:10]) == (0, "auctune 0.")


def test_help_lists_every_command_with_the_first_line_of_its_own_help(auctune: Run) -> None:
    code, out, _ = auctune("--help")
    assert code == 0
    _, shown = out.split("Commands:\n")
    lines = [line.split(maxsplit=1) for line in shown.splitlines()]
    assert lines == [[name, entry.help] for name, entry in app_module.COMMANDS.items()]
    for name, entry in app_module.COMMANDS.items():
        assert entry.load(name).help.splitlines()[0] == entry.help


def test_the_help_of_a_group_lists_its_commands_with_the_first_line_of_their_help(
    auctune: Run,
) -> None:
    groups: dict[str, list[list[str]]] = {}
    for path, command in all_commands().items():
        group, _, name = path.partition(" ")
        if name:
            groups.setdefault(group, []).append([name, command.help.splitlines()[0]])
    for group, expected in groups.items():
        _, shown = auctune(group, "--help")[1].split("Commands:\n")
        assert [line.split(maxsplit=1) for line in shown.splitlines()] == expected


def test_help_imports_no_command_and_nothing_that_takes_long() -> None:
    code = (
        "import sys; sys.argv = ['auctune', '--help']\n"
        "from auctune.cli.app import main\n"
        "try: main()\n"
        "except SystemExit: pass\n"
        "print(*[name for name in sys.modules if name.startswith('auctune')])\n"
        "print(*{'numpy', 'rich', 'httpx2', 'pydantic', 'numba', 'torch'} & sys.modules.keys())"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    ours, heavy = done.stdout.splitlines()[-2:]
    support = ["auctune.cli._support", "auctune.cli._support.lazy"]
    assert sorted(ours.split()) == ["auctune", "auctune.cli", *support, "auctune.cli.app"]
    assert heavy == ""


@pytest.mark.parametrize(
    ("error", "code", "line"),
    [
        (InputError("a", "b", "c"), 2, "auctune: a: b; expected c\n"),
        (InputError("a\nb", "\x1b[31mred", "c"), 2, "auctune: a b: [31mred; expected c\n"),
        (CheckpointError("damaged"), 1, "auctune: damaged\n"),
        (OSError(28, "No space left on device", "out.json"), 1, "auctune: out.json: No space"),
        (typer.Abort(), 130, "auctune: interrupted\n"),
    ],
)
def test_errors_become_one_line_and_an_exit_code(
    error: Exception, code: int, line: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert exit_code_of(error) == code
    said = capsys.readouterr().err
    assert said.startswith(line)
    assert said.count("\n") == 1


def test_a_defect_keeps_its_traceback() -> None:
    with pytest.raises(ZeroDivisionError):
        exit_code_of(ZeroDivisionError())


def test_without_a_command_the_help_is_shown_as_it_is(auctune: Run) -> None:
    code, _, lines = auctune()
    assert code == 2
    assert lines[0].startswith("Usage: auctune")
    assert any(line.strip().startswith("simulate") for line in lines)


@pytest.mark.parametrize(
    ("arguments", "file"),
    [
        (("--history", "h.json", "--report", "h.json"), "h.json"),
        (("--events", "e.json", "--report", "e.json"), "e.json"),
        (("--workload", "energy=p.csv", "--report", "p.csv"), "p.csv"),
        (("--workload", "device.own=d.json", "--report", "./d.json"), "d.json"),
    ],
)
def test_no_command_writes_over_what_it_reads(
    auctune: Run,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    arguments: tuple[str, ...],
    file: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    Path(file).write_text("precious")
    made_up = ("--workload", "nodes=a100:2", "--mechanism", "pdftsp", "--decisions", "d.jsonl")
    code, _, errors = auctune("simulate", *made_up, *arguments)
    assert code == 2
    assert errors[0].startswith(f"auctune: {file}: is read by this command")
    assert Path(file).read_text() == "precious"
    assert [path.name for path in tmp_path.iterdir()] == [file]


def test_the_cluster_beside_streamed_tasks_is_not_written_over(
    auctune: Run, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    small = ("--set", "nodes=a100:2", "--set", "rate=1", "--set", "slots=6")
    assert auctune("workload", "--out", "week.parquet", *small)[0] == 0
    cluster = Path("week.json").read_text()
    outputs = ("--decisions", "out.parquet", "--report", "week.json")
    code, _, errors = auctune("simulate", "week.parquet", "--mechanism", "eft", *outputs)
    assert code == 2
    assert errors[0].startswith("auctune: week.json: is read by this command")
    assert Path("week.json").read_text() == cluster
    good = ("--decisions", "out.parquet", "--report", "report.json")
    assert auctune("simulate", "week.parquet", "--mechanism", "eft", *good)[0] == 0
    assert json.loads(Path("report.json").read_text())["num_tasks"] > 0


def test_an_unknown_command_is_refused_with_those_that_are_like_it(auctune: Run) -> None:
    expected = "auctune: No such command 'jbos'. Did you mean 'jobs'? See `auctune --help`."
    assert auctune("jbos") == (2, "", [expected])
    expected = "auctune: No such command 'nothing'. See `auctune edge --help`."
    assert auctune("edge", "nothing") == (2, "", [expected])


def test_processes_that_a_command_starts_do_not_load_torchs_compiler(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["auctune", "--version"])
    # Restored after the test.
    monkeypatch.setenv("TORCHDYNAMO_DISABLE", "")
    monkeypatch.delenv("TORCHDYNAMO_DISABLE")
    with pytest.raises(SystemExit, match="0"):
        app_module.main()
    assert capsys.readouterr().out.startswith("auctune ")
    assert os.environ["TORCHDYNAMO_DISABLE"] == "1"
    # The fork server of the tests has the same setting.
    assert in_another_process(is_loaded, "peft")
    assert not in_another_process(is_loaded, "torch._inductor.compile_fx")
