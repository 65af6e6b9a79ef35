"""Mechanisms of other packages, written into a folder as an installer would leave them."""

import subprocess
import sys
from pathlib import Path

import pytest

from auctune.domain import Cluster, InputError, Node, NodeType
from auctune.registry.mechanisms import build, check_settings, mechanism_names, setting_names
from support.command_line import run_auctune
from support.packages import install

CLUSTER = Cluster(2, 60.0, 1.0, {"gpu": NodeType(10.0, 8.0, (0.1, 0.2))}, (Node("n", "gpu"),))
WORKING = """
from dataclasses import dataclass
from typing import Literal
from auctune.auction import make_eft
from auctune.registry import MechanismEntry

@dataclass(frozen=True)
class Params:
    name: str = "nobody"
    fast: bool = False
    rule: Literal["first", "last"] = "first"
    limit: float | None = None

def make(cluster, params, known):
    made = make_eft(cluster)
    made.params, made.known = params, known
    return made

ENTRY = MechanismEntry(Params, make)
"""


@pytest.fixture
def packages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder in which packages are found."""
    monkeypatch.syspath_prepend(tmp_path)
    return tmp_path


def test_an_installed_mechanism_is_listed_after_auctunes_own_and_built(packages: Path) -> None:
    install(packages, "lane_one", WORKING, "zebra", "antelope")
    assert mechanism_names() == ("pdftsp", "titan", "eft", "ntm", "antelope", "zebra")
    assert setting_names("zebra") == ("name", "fast", "rule", "limit")
    settings = {"name": "me", "fast": "true", "rule": "last", "limit": "2.5"}
    made = build("zebra", CLUSTER, settings, history=[[]])
    params = vars(made)["params"]
    assert (params.name, params.fast, params.rule, params.limit) == ("me", True, "last", 2.5)
    assert vars(made)["known"].history == [[]]


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"fast": "yes"}, "fast: 'yes'; expected true or false"),
        ({"rule": "middle"}, "rule: 'middle'; expected one of first, last"),
        ({"speed": "1"}, "speed: is not a setting of this mechanism; expected one of name, fast"),
    ],
)
def test_settings_of_an_installed_mechanism_are_checked(
    packages: Path, settings: dict[str, str], message: str
) -> None:
    install(packages, "lane_two", WORKING, "zebra")
    with pytest.raises(InputError, match=message):
        check_settings("zebra", settings)


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("import missing_wheel", r"cannot be loaded \(ModuleNotFoundError: No module named 'miss"),
        ("1 / 0", r"cannot be loaded \(ZeroDivisionError: "),
        ("", r"cannot be loaded \(AttributeError: "),
        ("ENTRY = 7", "is int; expected an auctune.registry.MechanismEntry"),
        (
            "from auctune.registry import MechanismEntry\nENTRY = MechanismEntry(int, print)",
            "has params <class 'int'>; expected a dataclass of its settings",
        ),
    ],
    ids=["no such import", "fails", "no such name", "another object", "no parameters"],
)
def test_what_cannot_be_loaded_is_refused_with_its_package(
    packages: Path, source: str, message: str, request: pytest.FixtureRequest
) -> None:
    package = f"broken_{request.node.callspec.indices['source']}"
    install(packages, package, source, "zebra", version="3.2")
    whose = rf"^mechanism: 'zebra' of {package} 3.2 \({package}:ENTRY\) "
    with pytest.raises(InputError, match=whose + message):
        build("zebra", CLUSTER)


def test_what_is_built_must_be_a_mechanism(packages: Path) -> None:
    install(packages, "half", WORKING.replace("return made", "return []"), "zebra")
    with pytest.raises(InputError, match="'zebra' was built as list without by_slot, advance, off"):
        build("zebra", CLUSTER)


def test_a_setting_of_a_type_that_no_text_gives_is_refused(packages: Path) -> None:
    install(packages, "odd_type", WORKING.replace("float | None", "dict | None"), "zebra")
    with pytest.raises(InputError, match="limit: is declared as <class 'dict'>; expected a sett"):
        build("zebra", CLUSTER, {"limit": "2"})


def test_a_name_that_auctune_has_is_refused_and_no_other(packages: Path) -> None:
    install(packages, "usurper", WORKING, "eft")
    with pytest.raises(InputError, match="'eft' is offered by auctune and by usurper 1"):
        build("eft", CLUSTER)
    assert build("ntm", CLUSTER) is not None
    assert mechanism_names() == ("pdftsp", "titan", "eft", "ntm")


def test_a_name_of_two_packages_is_refused(packages: Path) -> None:
    install(packages, "lane_three", WORKING, "zebra")
    install(packages, "lane_four", WORKING, "zebra", version="2.0")
    with pytest.raises(InputError, match=r"by lane_\w+ \d.0 and by lane_\w+ \d.0; exp"):
        build("zebra", CLUSTER)


def test_the_command_line_names_a_broken_package(
    packages: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    install(packages, "broken_wheel", "import missing_wheel", "zebra")
    market = ["--workload", "nodes=a100:1", "--workload", "slots=2", "--workload", "rate=1"]
    outputs = ["--decisions", str(tmp_path / "out.jsonl"), "--report", str(tmp_path / "out.json")]
    code, _, errors = run_auctune(
        ["simulate", *market, "--mechanism", "zebra", *outputs], monkeypatch, capsys
    )
    assert code == 2
    assert len(errors) == 1
    assert errors[0].startswith("auctune: --mechanism: 'zebra' of broken_wheel 1.0 (broken_wheel:")
    assert not (tmp_path / "out.json").exists()


def test_help_loads_no_package(packages: Path) -> None:
    install(packages, "loud", "raise SystemExit('loaded')", "zebra")
    done = subprocess.run(
        [sys.executable, "-m", "auctune", "--help"],
        cwd=packages,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0
    assert "loaded" not in done.stdout + done.stderr
