"""The commands against a service that really runs, is killed, and comes back."""

import json
import os
import re
import shlex
import signal
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from safetensors.numpy import load_file

from support.command_line import run_auctune
from support.market_runs import EXAMPLE, Child, Commands, living
from support.pages import blocks
from support.waits import poll

pytest_plugins = ["support.market_fixtures", "support.tiny_bases"]
pytestmark = pytest.mark.slow

Run = Callable[..., tuple[int, str]]

# Long enough for a plan of several slots, short enough for a test.
SLOT_SECONDS = 2
REJECTED = 3
CONFIG = f"""
port = 0

[[zones]]
name = "quick"
slot_seconds = {SLOT_SECONDS}
node_types.local.profile = "slow.json"
"""
# So slow that a busy machine keeps up with what was sold.
PACE = {"step_seconds": 0.1, "token_seconds": 2e-3}


def start(auctune: Commands, folder: Path) -> Child:
    profile = json.loads((EXAMPLE / "cpu-core.json").read_bytes())
    (folder / "slow.json").write_text(json.dumps(profile | PACE))
    (folder / "auctune.toml").write_text(CONFIG)
    options = ("--data", "market", "--config", "auctune.toml")
    service = auctune.start("serve", *options, cwd=folder)
    assert service.wait_for(lambda text: "stop with Ctrl-C" in text), service.text
    return service


@pytest.fixture(scope="module")
def home(cache_home: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("user")
    lines = (EXAMPLE / "data" / "weather.jsonl").read_text().splitlines()[:48]
    (folder / "weather.jsonl").write_text("\n".join(lines) + "\n")
    return folder


@pytest.fixture(scope="module")
def commands(cache_home: Path) -> Iterator[Commands]:
    found = Commands(cache_home)
    yield found
    found.clear()


@pytest.fixture(scope="module")
def service(commands: Commands, home: Path) -> Child:
    return start(commands, home)


@pytest.fixture
def auctune(
    cache_home: Path,
    home: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> Run:
    """Types a command in `home`, within the process of the test; both streams as one text."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(cache_home))
    monkeypatch.setenv("COLUMNS", "100")
    monkeypatch.chdir(home)

    def run(*arguments: str) -> tuple[int, str]:
        code, out, lines = run_auctune([*arguments, "--data", "market"], monkeypatch, capsys)
        return code, out + "".join(f"{line}\n" for line in lines)

    return run


def submit(auctune: Run, *more: str) -> dict[str, object]:
    terms = ("--bid", "50", "--deadline", "+8m", "--set", "epochs=4", "--set", "share=0.5")
    code, text = auctune("submit", "weather.jsonl", *terms, "--json", *more)
    assert code == 0, text
    found: dict[str, object] = json.loads(text)
    return found


def readme_commands() -> dict[str, list[str]]:
    """Each `auctune` command of the README by its name: the command line, then its output."""
    found: dict[str, list[str]] = {}
    for block in blocks(Path("README.md"), "console"):
        for line in block.text.splitlines():
            if line.startswith("$ "):
                shown = found.setdefault(line.split()[2], [])
            shown.append(line)
    return found


def masked(text: str) -> list[str]:
    """Return the lines of `text` without their numbers and the names of nodes."""
    return re.sub(r"\d+", "0", re.sub(r"(?<=\d on )[\w-]+", "NODE", text)).splitlines()


def test_the_readme_shows_what_its_commands_print(auctune: Run, service: Child) -> None:
    shown = readme_commands()
    _, where, key, _ = shown["serve"]
    assert masked(where)[0] in masked(service.text)
    # Shown on a terminal alone: this text may be a log.
    assert f"the {key.partition(':')[0]} is in market/first-key" in service.text
    command, *lines = shown["submit"]
    options = shlex.split(command)[4:]
    options[options.index("+5m")] = "+8m"
    options[options.index("epochs=6")] = "epochs=1"
    code, text = auctune("submit", "weather.jsonl", *options, "--zone", "quick")
    assert code == 0, text
    assert set(masked("\n".join(lines))) <= set(masked(text)), text


def test_ctrl_c_ends_the_watching_and_not_the_job(
    commands: Commands, auctune: Run, home: Path, service: Child
) -> None:
    job = str(submit(auctune)["id"])
    watching = commands.start("watch", job, "--data", "market", cwd=home)
    assert watching.wait_for(lambda text: "weather" in text)
    os.kill(watching.pid, signal.SIGINT)
    assert watching.wait() == 130
    assert f"auctune watch {job}" in watching.text
    code, text = auctune("cancel", job)
    assert (code, "cancelled" in text) == (0, True), text


def test_a_job_is_paused_resumed_and_cancelled(auctune: Run, service: Child) -> None:
    job = str(submit(auctune)["id"])
    for action, state in (("pause", "paused"), ("resume", "plan|train"), ("cancel", "cancelled")):
        code, text = auctune(action, job)
        assert code == 0, text
        assert any(word in text for word in state.split("|")), text
    assert auctune("cancel", job)[0] != 0


def test_a_bid_that_is_rejected_says_why_and_ends_with_3(auctune: Run, service: Child) -> None:
    terms = ("--bid", "9", "--deadline", f"+{2 * SLOT_SECONDS + 1}s", "--set", "epochs=5000")
    code, text = auctune("submit", "weather.jsonl", *terms)
    assert code == REJECTED
    assert "weather rejected: no node could finish it by its deadline" in text


def test_what_if_only_asks(auctune: Run, service: Child) -> None:
    before = json.loads(auctune("jobs", "--json")[1])
    # So late that it can be done though the machine is busy.
    terms = ("--bid", "9", "--deadline", "+40m", "--what-if")
    code, text = auctune("submit", "weather.jsonl", *terms)
    assert code == 0, text
    assert "weather would be admitted" in text
    assert len(json.loads(auctune("jobs", "--json")[1])) == len(before)


def test_users_are_added_see_their_own_and_nobody_elses_and_lose_their_keys(
    auctune: Run, service: Child
) -> None:
    assert auctune("teams", "add", "lab", "--budget", "100.00/30d")[0] == 0
    assert auctune("users", "add", "ann", "--team", "lab")[0] == 0
    code, key = auctune("keys", "add", "ann", "--name", "laptop")
    assert (code, key[:3]) == (0, "sk-")
    own = ("--api-key", key.strip())

    code, text = auctune("ledger", *own)
    owed = "ann owes 0.0000; remaining budget: 100.0000\n"
    assert (code, text) == (0, f"{owed}stored: 0 files, 0 bytes\n")
    code, text = auctune("prices", *own)
    assert (code, text) == (1, "auctune: needs an operator's key\n")
    assert json.loads(auctune("jobs", "--json", *own)[1]) == []

    records = json.loads(auctune("keys", "list", "--json")[1])
    (record,) = [record for record in records if record["user"] == "ann"]
    assert auctune("keys", "revoke", record["id"])[0] == 0
    code, text = auctune("jobs", *own)
    assert code == 1
    assert "no valid API key" in text


def test_the_operator_sees_prices_and_accounts_that_sum_to_zero(
    auctune: Run, service: Child
) -> None:
    code, text = auctune("prices", "--slots", "3")
    assert code == 0, text
    # Of compute, and of memory.
    assert sum("%" in line for line in text.splitlines()) == 2 * 3
    record = json.loads(auctune("ledger", "--json")[1])
    steps = [round(float(amount) * 10_000) for amount in record["balances"].values()]
    assert sum(steps) == 0
    assert auctune("ledger")[0] == 0


def test_a_second_service_on_a_folder_says_so_in_one_line(
    commands: Commands, auctune: Run, home: Path, service: Child
) -> None:
    code, text = commands.run("serve", "--port", "0", "--data", "market", cwd=home)
    assert code == 2
    assert text.count("\n") == 1, text
    assert "auctune.db" in text
    # The first one is still to be found.
    assert auctune("jobs")[0] == 0


def stop(service: Child, number: signal.Signals) -> None:
    """Ask a service to stop; it does so by itself, with all its processes."""
    poll(lambda: bool(service.nodes()), "a node's process")
    children = service.nodes()
    os.kill(service.pid, number)
    assert service.wait() == 0, service.text
    assert service.text.endswith("stopped\n")
    poll(lambda: not living(children))


# The last test of the shared service, which it kills.
def test_a_job_is_bid_for_watched_through_a_kill_fetched_and_tried(
    commands: Commands, auctune: Run, home: Path, service: Child
) -> None:
    job = str(submit(auctune, "--name", "rain")["id"])
    watching = commands.start("watch", job, "--data", "market", cwd=home)
    assert watching.wait_for(lambda text: "rain training" in text), watching.text

    service.kill_group(signal.SIGKILL)
    assert watching.wait_for(lambda text: "does not answer" in text), watching.text
    again = start(commands, home)
    assert watching.wait() == 0, watching.text
    assert "answers again" in watching.text
    assert watching.text.count("rain admitted") == 1
    assert "rain done: loss " in watching.text

    code, text = auctune("fetch", job, "--out", "adapter")
    assert code == 0, text
    assert load_file(home / "adapter" / "adapter_model.safetensors")
    record = json.loads((home / "adapter" / "job.json").read_text())
    assert (record["id"], record["status"]) == (job, "succeeded")
    assert f"pays {record['market']['payment']} " in watching.text
    columns, *steps = (home / "adapter" / "metrics.csv").read_text().splitlines()
    assert columns.startswith("step,train_loss,train_mean_token_accuracy,")
    assert [line.split(",")[0] for line in steps] == [str(n + 1) for n in range(len(steps))]
    assert len(steps) > 1
    assert auctune("fetch", job, "--out", "adapter")[0] == 2

    code, text = auctune("fetch", job, "--out", "epoch", "--checkpoint", "1")
    assert code == 2, text
    last = max(map(int, re.findall(r"\d+", text.partition("one of")[2])))
    assert auctune("fetch", job, "--out", "epoch", "--checkpoint", f"{last}")[0] == 0
    one, other = (home / name / "adapter_model.safetensors" for name in ("adapter", "epoch"))
    assert one.read_bytes() == other.read_bytes()
    assert auctune("evaluate", "epoch", "--checkpoint", f"{last}")[0] == 2

    prompt = "Weather report for Lisbon: clear, 9 degrees.\nAdvice:"
    tried = [
        auctune("try", job, prompt, "--max-tokens", "12", *more) for more in ((), ("--base-alone",))
    ]
    assert [code for code, _ in tried] == [0, 0], tried
    code, text = auctune("fetch", job, "--out", "merged", "--merged")
    assert (code, text) == (0, "model: merged/\n"), text
    # The same text as the adapter on its base.
    merged = str(home / "merged")
    alone = auctune("try", job, prompt, "--max-tokens", "12", "--base", merged, "--base-alone")
    assert alone == tried[0]
    assert tried[0][1].strip()
    assert tried[0][1] != tried[1][1]
    stop(again, signal.SIGTERM)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM], ids=lambda n: n.name)
def test_a_service_that_is_asked_to_stop_puts_all_away(
    commands: Commands,
    auctune: Run,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    number: signal.Signals,
) -> None:
    stop(start(commands, tmp_path), number)
    assert not (tmp_path / "market" / "url").exists()
    monkeypatch.chdir(tmp_path)
    code, text = auctune("jobs")
    assert code == 2
    assert text.startswith("auctune: --url: is missing, and no service runs in market")
    assert auctune("db", "upgrade") == (0, "the database is up to date\n")
