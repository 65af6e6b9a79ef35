"""What pages say can be done, done: links followed, commands read, Python run."""

import io
import re
import shlex
import tomllib
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path

import pytest
from pydantic import TypeAdapter
from rich.console import Console

from auctune.engine.console import RunConsole
from auctune.engine.edge.inputs import TrainingTable
from auctune.engine.market.market_file import BidEntry, MarketFile, NodeTypeEntry, read_market
from auctune.files.parameter_text import parse_label
from auctune.registry import mechanisms
from auctune.registry.policies import EDGE_ENTRIES, SPOT_POLICIES, TIMESHARE_ALLOCATORS
from auctune.service.config.models import ServiceConfig
from auctune.sim.spot.forecasts import forecaster_names, parse_forecaster
from auctune.sim.spot.job_file import TrainingEntry
from auctune.sim.timeshare.bundle_file import BundleFile
from auctune.standalone.market import run_market
from auctune.standalone.preparation import prepare
from auctune.train import profile
from auctune.train.cost_model import MARGIN_QUANTILE
from auctune.train.profile import Effort
from support.command_line import all_commands
from support.pages import ROOT, Block, anchors, blocks, commands, inline_codes, links, pages

pytest_plugins = ["support.tiny_bases"]

EXAMPLE = ROOT / "examples" / "first-market"
DECISION = re.compile(r"^slot +\d+ +\S+ (?:admitted|rejected): .*$", re.MULTILINE)
SESSION = ">>> "
WITH_COMMANDS = [page for page in pages() if commands(page)]
COMMANDS = all_commands()


def programs(page: Path) -> list[Block]:
    """Python to be run as it stands; sessions with their answers are run as doctests."""
    return [block for block in blocks(page, "python") if not block.text.startswith(SESSION)]


@pytest.mark.parametrize("page", pages(), ids=str)
def test_every_link_within_the_project_leads_somewhere(page: Path) -> None:
    for link in links(page):
        if re.match(r"[a-z]+:", link):
            continue
        path, _, anchor = link.partition("#")
        target = (ROOT / page.parent / path).resolve() if path else ROOT / page
        assert target.exists(), link
        if anchor:
            assert anchor in anchors(target.relative_to(ROOT)), link


@pytest.mark.parametrize("page", WITH_COMMANDS, ids=str)
def test_every_command_shown_is_one_that_auctune_takes(page: Path) -> None:
    for line in commands(page):
        _, name, *arguments = shlex.split(line.removesuffix("&"), comments=True)
        if name.startswith("-"):
            assert name in ("--help", "--version"), line
        else:
            # Some groups are commands of their own too.
            inner = " ".join([name, *arguments[:1]])
            if arguments and inner in COMMANDS:
                name, arguments = inner, arguments[1:]
            COMMANDS[name].make_context(name, arguments)


@pytest.mark.parametrize("page", pages(), ids=str)
def test_every_option_of_a_command_within_a_sentence_is_one_that_it_has(page: Path) -> None:
    for code in inline_codes(page):
        words = code.split()
        if words[:1] == ["auctune"] and len(words) > 1 and not words[1].startswith("-"):
            # Also of a group, of which any command may be meant.
            meant = [
                command
                for name, command in COMMANDS.items()
                if name in (words[1], " ".join(words[1:3])) or name.startswith(f"{words[1]} ")
            ]
            assert meant, code
            known = {name for command in meant for one in command.params for name in one.opts}
            shown = {word for word in words if word.startswith("--")}
            assert shown <= {*known, "--help"}, code


MAKERS: tuple[tuple[Sequence[str], Callable[[str, Mapping[str, str]], object]], ...] = (
    (mechanisms.mechanism_names(), mechanisms.check_settings),
    (SPOT_POLICIES.names(), SPOT_POLICIES.build),
    (EDGE_ENTRIES.names(), EDGE_ENTRIES.build),
    (TIMESHARE_ALLOCATORS.names(), TIMESHARE_ALLOCATORS.build),
)


@pytest.mark.parametrize("page", pages(), ids=str)
def test_every_mechanism_with_settings_within_a_sentence_is_one_that_there_is(page: Path) -> None:
    for code in inline_codes(page):
        for label in re.findall(r"(?:^|(?<= ))[a-z][\w-]*:[a-z_]+=\S+", code):
            name, settings = parse_label(label, str(page), "mechanism")
            if name in forecaster_names():
                parse_forecaster(label, str(page))
                continue
            makers = [make for names, make in MAKERS if name in names]
            assert makers, label
            for make in makers:
                make(name, settings)


def test_the_margin_of_a_profile_is_the_one_that_is_measured() -> None:
    text = (ROOT / "docs" / "explanation" / "choices.md").read_text()
    assert f"the {MARGIN_QUANTILE:.0%} quantile over {Effort().mixes} mixes" in text


def test_make_targets_shown_exist() -> None:
    makefile = (ROOT / "Makefile").read_text()
    for page in pages():
        shown = [block.text for block in blocks(page, "sh")] + inline_codes(page)
        for text in shown:
            for target in re.findall(r"^make ([a-z][\w-]*)", text, re.MULTILINE):
                assert f"\n{target}:" in makefile, f"{page}: make {target}"


@pytest.fixture(scope="session")
def small_run(tiny_cache: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder `out` with a run of the example's bid `weather` alone, on few rows."""
    folder = tmp_path_factory.mktemp("pages")
    market = (EXAMPLE / "market.toml").read_text()
    first = market[: market.index("[[bids]]", market.index('id = "weather"'))]
    (folder / "market.toml").write_text(first.replace("epochs = 6", "epochs = 1"))
    (folder / "data").mkdir()
    (folder / "cpu-core.json").write_bytes((EXAMPLE / "cpu-core.json").read_bytes())
    for name in ("weather", "weather-validation"):
        lines = (EXAMPLE / "data" / f"{name}.jsonl").read_text().splitlines()[:16]
        (folder / "data" / f"{name}.jsonl").write_text("\n".join(lines))
    cache = folder / "cache"
    (cache / "auctune").mkdir(parents=True)
    (cache / "auctune" / "bases").symlink_to(tiny_cache)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(cache))
        run_market(folder / "market.toml", folder / "out" / "first-market", Console(quiet=True))
    return folder / "out"


# It quotes modules of a package, which its own test installs.
ZONE_KIND = Path("docs/how-to/add-a-zone-kind.md")
WITH_PROGRAMS = [page for page in pages() if programs(page) and page != ZONE_KIND]


# Of peft and transformers, about each other.
@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:.*is_gradient_checkpointing:FutureWarning")
@pytest.mark.parametrize("page", WITH_PROGRAMS, ids=str)
def test_python_blocks_of_a_page_run_one_after_the_other(
    page: Path,
    small_run: Path,
    tiny_cache: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    (tmp_path / "out").symlink_to(small_run)
    (tmp_path / "cache").symlink_to(tiny_cache)
    monkeypatch.chdir(tmp_path)
    short = partial(Effort, sweep_tokens=(("cpu", 64),), timed=3, mixes=2, load_rows=10)
    monkeypatch.setattr(profile, "Effort", short)
    names: dict[str, object] = {"__name__": "page"}
    for block in programs(page):
        # So that a traceback points at the page.
        source = "\n" * (block.line - 1) + block.text
        exec(compile(source, str(page), "exec"), names)


def test_sessions_are_on_pages_that_are_run_as_doctests() -> None:
    tested = (ROOT / "tests" / "acceptance" / "test_docs_of_the_simulator.py").read_text()
    for page in pages():
        if len(programs(page)) < len(blocks(page, "python")):
            assert str(page) in tested


# Pages of other files, read by tests of their own.
OTHER_FILES = {
    ZONE_KIND,
    Path("docs/reference/spot-files.md"),
    Path("docs/reference/timeshare-files.md"),
}
WITH_TOML = [page for page in pages() if blocks(page, "toml") and page not in OTHER_FILES]


@pytest.mark.parametrize("page", WITH_TOML, ids=str)
def test_toml_blocks_have_keys_of_files_that_are_read_only(page: Path) -> None:
    for block in blocks(page, "toml"):
        table = tomllib.loads(block.text)
        if table.keys() & {"zones", "limits", "files", "billing", "inference"}:
            ServiceConfig.model_validate(table)
            continue
        if "thread" in table:
            BundleFile.model_validate({"pool": {"unit_seconds": 1.0}, **table})
            continue
        if table.keys() & {"training", "jobs"}:
            TypeAdapter(TrainingEntry | None).validate_python(table.get("training"))
            TypeAdapter(dict[str, TrainingTable]).validate_python(table.get("jobs", {}))
            continue
        assert table.keys() <= MarketFile.model_fields.keys()
        for entry in table.get("node_types", {}).values():
            assert entry.keys() <= NodeTypeEntry.model_fields.keys()
        for entry in table.get("bids", []):
            assert entry.keys() <= BidEntry.model_fields.keys()
        if {"base", "bids"} <= table.keys():
            MarketFile.model_validate(table)


@pytest.fixture(scope="session")
def example_lines(tiny_cache: Path, tmp_path_factory: pytest.TempPathFactory) -> list[list[str]]:
    """Decision lines of the example as it is, and with weather's bid at 40 and at 0.70.

    They are those of a run, as each bid of the example is decided before any cell is given back.
    """
    market = (EXAMPLE / "market.toml").read_text()
    found = []
    for bid in ("4.00", "40.00", "0.70"):
        path = tmp_path_factory.mktemp("example") / "market.toml"
        path.write_text(market.replace("\nbid = 4.00\n", f"\nbid = {bid}\n"))
        found.append(_decisions(path, tiny_cache))
    return found


def _decisions(market: Path, cache: Path) -> list[str]:
    table, place = read_market(market), str(market)
    prepared = prepare(table, place, table.base, EXAMPLE.joinpath, cache, {}, lambda *_: None)
    console = Console(record=True, width=200, file=io.StringIO())
    shown = RunConsole(console)
    for bid in sorted(prepared.bids, key=lambda bid: bid.task.arrival):
        slot = bid.task.arrival
        shown.decided(slot, bid, prepared.mechanism.offer(bid.task, slot))
    return console.export_text().splitlines()


def test_decisions_shown_are_those_of_the_example(example_lines: list[list[str]]) -> None:
    known = {line.rstrip() for lines in example_lines for line in lines}
    for page in pages():
        for block in blocks(page, "console"):
            for line in DECISION.findall(block.text):
                assert line in known, page


def test_the_tutorial_shows_all_decisions_of_the_example(example_lines: list[list[str]]) -> None:
    tour = next(
        block.text
        for block in blocks(Path("docs/tutorial/first-market.md"), "console")
        if "--out out/first-market" in block.text
    )
    assert DECISION.findall(tour) == [line.rstrip() for line in example_lines[0]]


def test_the_readme_can_be_read_in_four_minutes() -> None:
    assert len((ROOT / "README.md").read_text().split()) <= 900


def test_requirements_name_a_release_and_hashes_of_each_package_but_torch() -> None:
    text = (ROOT / "requirements.txt").read_text().replace("\\\n", "")
    lines = [line for line in text.splitlines() if not line.startswith("#")]
    pin = re.compile(r"([\w.-]+)==[\w.]+ ;[^;]+?( +--hash=sha256:[0-9a-f]{64})+")
    matches = [pin.fullmatch(line) for line in lines]
    assert all(matches)
    packages = {match[1] for match in matches if match is not None}
    declared = tomllib.loads((ROOT / "pyproject.toml").read_text())
    extras = declared["project"]["optional-dependencies"].values()
    needed = {re.split(r"[\[=><]", line)[0] for part in extras for line in part}
    assert needed - packages == {"torch", "auctune"}
    # What pip takes with `--constraint`: hashes would refuse auctune's own wheel.
    pins = [re.sub(r" +--hash=\S+", "", line).strip() for line in lines]
    *constraints, torch = (ROOT / "constraints.txt").read_text().splitlines()
    assert constraints == pins
    assert [torch] == declared["tool"]["uv"]["constraint-dependencies"]


def test_the_build_backend_is_the_release_that_the_constraints_check() -> None:
    (backend,) = tomllib.loads((ROOT / "pyproject.toml").read_text())["build-system"]["requires"]
    assert f"\n{backend} ;" in (ROOT / "requirements.txt").read_text()
