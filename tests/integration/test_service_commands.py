"""The commands against a service that really runs, is killed, and comes back."""

import json
import os
import re
import shlex
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from safetensors.numpy import load_file

from support.market_runs import EXAMPLE, Child, Commands, living, poll
from support.pages import blocks

pytest_plugins = ["support.market_fixtures", "support.tiny_bases"]
pytestmark = pytest.mark.slow

# Long enough for a plan of several slots, short enough for a test.
SLOT_SECONDS = 2
REJECTED = 3
# A quote can be accepted as long as its plan lies ahead: time enough for a test in the second zone.
CONFIG = f"""
port = 0

[[zones]]
name = "quick"
slot_seconds = {SLOT_SECONDS}
node_types.local.profile = "slow.json"

[[zones]]
name = "slow"
slot_seconds = 120
node_types.local.profile = "slow.json"
"""
# So slow that a busy machine keeps up with what was sold.
PACE = {"step_seconds": 0.1, "token_seconds": 2e-3}


def start(auctune: Commands, folder: Path) -> Child:
    """A service in `folder`, open."""
    profile = json.loads((EXAMPLE / "cpu-core.json").read_bytes())
    (folder / "slow.json").write_text(json.dumps(profile | PACE))
    (folder / "auctune.toml").write_text(CONFIG)
    options = ("--data", "market", "--config", "auctune.toml")
    service = auctune.start("serve", *options, cwd=folder)
    assert service.wait_for(lambda text: "stop with Ctrl-C" in text), service.text
    return service


@pytest.fixture(scope="module")
def home(cache_home: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a data set, where users type their commands."""
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


def call(commands: Commands, home: Path, *arguments: str) -> tuple[int, str]:
    return commands.run(*arguments, "--data", "market", cwd=home)


def submit(commands: Commands, home: Path, *more: str) -> dict[str, object]:
    """A job that takes some slots; what the service answered."""
    terms = ("--bid", "50", "--deadline", "+8m", "--set", "epochs=4", "--set", "share=0.5")
    code, text = call(commands, home, "submit", "weather.jsonl", *terms, "--json", *more)
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


def test_the_readme_shows_what_its_commands_print(
    commands: Commands, home: Path, service: Child
) -> None:
    shown = readme_commands()
    where, key = shown["serve"][1:]
    assert masked(where)[0] in masked(service.text)
    assert key.removesuffix("sk-...") in service.text
    command, *lines = shown["submit"]
    options = shlex.split(command)[4:]
    options[options.index("+90s")] = "+8m"
    options[options.index("epochs=6")] = "epochs=1"
    code, text = call(commands, home, "submit", "weather.jsonl", *options, "--zone", "quick")
    assert code == 0, text
    assert set(masked("\n".join(lines))) <= set(masked(text)), text


def test_a_quote_is_shown_and_accepted_as_it_says(
    commands: Commands, home: Path, service: Child
) -> None:
    asked = ("weather.jsonl", "--set", "epochs=2", "--zone", "slow")
    code, text = call(commands, home, "quote", *asked)
    assert code == 0, text
    (line,) = [line for line in text.splitlines() if line.split()[:1] == ["0"]]
    price = line.split()[2]
    (command,) = [line.split() for line in text.splitlines() if "auctune submit" in line]
    code, text = call(commands, home, *command[1:])
    assert code == 0, text
    assert f" admitted: pays {price} " in text


def test_a_job_is_bid_for_watched_through_a_kill_fetched_and_tried(
    commands: Commands, home: Path, tmp_path: Path
) -> None:
    first = start(commands, tmp_path)
    (tmp_path / "weather.jsonl").write_bytes((home / "weather.jsonl").read_bytes())
    job = str(submit(commands, tmp_path, "--name", "rain")["id"])
    watching = commands.start("watch", "--data", "market", cwd=tmp_path)
    assert watching.wait_for(lambda text: "rain training" in text), watching.text

    first.kill_group(signal.SIGKILL)
    assert watching.wait_for(lambda text: "does not answer" in text), watching.text
    again = start(commands, tmp_path)
    assert watching.wait() == 0, watching.text
    assert "answers again" in watching.text
    assert watching.text.count("rain admitted") == 1
    assert "rain done: loss " in watching.text

    code, text = call(commands, tmp_path, "fetch", job, "--out", "adapter")
    assert code == 0, text
    assert load_file(tmp_path / "adapter" / "adapter_model.safetensors")
    record = json.loads((tmp_path / "adapter" / "job.json").read_text())
    assert (record["id"], record["status"]) == (job, "succeeded")
    assert f"pays {record['market']['payment']} " in watching.text
    assert call(commands, tmp_path, "fetch", job, "--out", "adapter")[0] == 2

    prompt = "Weather report for Lisbon: clear, 9 degrees.\nAdvice:"
    tried = [
        call(commands, tmp_path, "try", job, prompt, "--max-tokens", "12", *more)
        for more in ((), ("--base-alone",))
    ]
    assert [code for code, _ in tried] == [0, 0], tried
    assert tried[0][1].strip()
    assert tried[0][1] != tried[1][1]
    stop(again, signal.SIGTERM)


def test_ctrl_c_ends_the_watching_and_not_the_job(
    commands: Commands, home: Path, service: Child
) -> None:
    job = str(submit(commands, home)["id"])
    watching = commands.start("watch", job, "--data", "market", cwd=home)
    assert watching.wait_for(lambda text: "weather" in text)
    os.kill(watching.pid, signal.SIGINT)
    assert watching.wait() == 130
    assert f"auctune watch {job}" in watching.text
    code, text = call(commands, home, "cancel", job)
    assert (code, "cancelled" in text) == (0, True), text


def test_a_job_is_paused_resumed_and_cancelled(
    commands: Commands, home: Path, service: Child
) -> None:
    job = str(submit(commands, home)["id"])
    for action, state in (("pause", "paused"), ("resume", "plan|train"), ("cancel", "cancelled")):
        code, text = call(commands, home, action, job)
        assert code == 0, text
        assert any(word in text for word in state.split("|")), text
    assert call(commands, home, "cancel", job)[0] != 0


def test_a_bid_that_is_rejected_says_why_and_ends_with_3(
    commands: Commands, home: Path, service: Child
) -> None:
    terms = ("--bid", "9", "--deadline", f"+{2 * SLOT_SECONDS + 1}s", "--set", "epochs=5000")
    code, text = call(commands, home, "submit", "weather.jsonl", *terms)
    assert code == REJECTED
    assert "weather rejected: no node could finish it by its deadline" in text


def test_what_if_only_asks(commands: Commands, home: Path, service: Child) -> None:
    before = json.loads(call(commands, home, "jobs", "--json")[1])
    terms = ("--bid", "9", "--deadline", "+2m", "--what-if")
    code, text = call(commands, home, "submit", "weather.jsonl", *terms)
    assert code == 0, text
    assert "weather would be admitted" in text
    assert len(json.loads(call(commands, home, "jobs", "--json")[1])) == len(before)


def test_users_are_added_see_their_own_and_nobody_elses_and_lose_their_keys(
    commands: Commands, home: Path, service: Child
) -> None:
    assert call(commands, home, "teams", "add", "lab", "--budget", "100.00/30d")[0] == 0
    assert call(commands, home, "users", "add", "ann", "--team", "lab")[0] == 0
    code, key = call(commands, home, "keys", "add", "ann", "--name", "laptop")
    assert (code, key[:3]) == (0, "sk-")
    own = ("--api-key", key.strip())

    code, text = call(commands, home, "ledger", *own)
    assert (code, text) == (0, "ann owes 0.0000; remaining budget: 100.0000\n")
    code, text = call(commands, home, "prices", *own)
    assert (code, text) == (1, "auctune: needs an operator's key\n")
    assert json.loads(call(commands, home, "jobs", "--json", *own)[1]) == []

    records = json.loads(call(commands, home, "keys", "list", "--json")[1])
    (record,) = [record for record in records if record["user"] == "ann"]
    assert call(commands, home, "keys", "revoke", record["id"])[0] == 0
    code, text = call(commands, home, "jobs", *own)
    assert code == 1
    assert "no valid API key" in text


def test_the_operator_sees_prices_and_accounts_that_sum_to_zero(
    commands: Commands, home: Path, service: Child
) -> None:
    code, text = call(commands, home, "prices", "--slots", "3")
    assert code == 0, text
    assert sum("%" in line for line in text.splitlines()) == 3
    record = json.loads(call(commands, home, "ledger", "--json")[1])
    steps = [round(float(amount) * 10_000) for amount in record["balances"].values()]
    assert sum(steps) == 0
    assert call(commands, home, "ledger")[0] == 0


def test_a_second_service_on_a_folder_says_so_in_one_line(
    commands: Commands, home: Path, service: Child
) -> None:
    code, text = call(commands, home, "serve", "--port", "0")
    assert code == 2
    assert text.count("\n") == 1, text
    assert "auctune.db" in text
    # The first one is still to be found.
    assert call(commands, home, "jobs")[0] == 0


def stop(service: Child, number: signal.Signals) -> None:
    """Ask a service to stop; it does so by itself, with all its processes."""
    children = service.nodes()
    assert children
    os.kill(service.pid, number)
    assert service.wait() == 0, service.text
    assert service.text.endswith("stopped\n")
    assert poll(lambda: not living(children))


@pytest.mark.thorough
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM], ids=lambda n: n.name)
def test_a_service_that_is_asked_to_stop_puts_all_away(
    commands: Commands, tmp_path: Path, number: signal.Signals
) -> None:
    stop(start(commands, tmp_path), number)
    assert not (tmp_path / "market" / "url").exists()
    code, text = call(commands, tmp_path, "jobs")
    assert code == 2
    assert text.startswith("auctune: --url: is missing, and no service runs in market")
    assert call(commands, tmp_path, "db", "upgrade") == (0, "the database is up to date\n")
