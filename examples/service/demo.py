"""A market with zones of every kind, on this machine: started, bid in, watched, and settled.

    python examples/service/demo.py [FOLDER] [--stay]

Each command is shown as one would type it. At the end stand the jobs, with what was decided and
paid, and the sums of the ledger. The service keeps what it has in FOLDER (out/demo). With --stay it
goes on until Ctrl-C, so that its page can be looked at.
"""

import argparse
import shlex
import shutil
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path

from auctune.cli._support.tables import make_table, print_table
from auctune.client import Client, Job, resolve_endpoint
from auctune.client.transport import Transport

HERE = Path(__file__).resolve().parent
FIRST_MARKET = HERE.parent / "first-market"
MAKE_SITES = HERE.parent / "edge" / "make_sites.py"
AUCTUNE = [sys.executable, "-m", "auctune"]
# Building the base, measuring the device and compiling take a while on a machine that is busy.
OPEN_SECONDS = 600
STOP_SECONDS = 60
# Of a command that worked, some of whose bids were rejected.
GOOD = (0, 3)


@dataclass(frozen=True, slots=True)
class Ask:
    """A job that somebody asks for, and why it is here.

    Attributes:
        remark: what it shows.
        words: of `auctune submit`.
    """

    remark: str
    words: Sequence[str]


def data(name: str) -> str:
    """A data set of the first market."""
    return str(FIRST_MARKET / "data" / f"{name}.jsonl")


ASKS = (
    Ask(
        "rented by deadline: worth 40 in two minutes, nothing in four; never more than 15",
        (data("support"), "--name", "support-rented", "--zone", "rented", "--max-cost", "15",
         "--value", "40@+2m..+4m", "--set", "epochs=8", "--set", "learning_rate=0.005"),
    ),
    Ask(
        "the same for a cap that is not enough, and what would be",
        (data("garden"), "--name", "thrifty", "--zone", "rented", "--max-cost", "0.05",
         "--deadline", "+2m", "--set", "epochs=4"),
    ),
    Ask(
        "trained to a loss, on a pool that is charged by the second",
        (data("weather"), "--name", "weather-to-1.0", "--target-loss", "1.0", "--max-cost", "3",
         "--deadline", "+150s", "--set", "learning_rate=0.01"),
    ),
    Ask(
        "another one on the pool: they share it so that both are in time",
        (data("mood"), "--name", "mood-to-1.3", "--target-loss", "1.3", "--max-cost", "3",
         "--deadline", "+150s", "--set", "learning_rate=0.01"),
    ),
    Ask(
        "one that asks for more than its cap can buy",
        (data("recipes"), "--name", "recipes-to-0.1", "--target-loss", "0.1",
         "--max-cost", "0.20", "--deadline", "+120s", "--set", "learning_rate=0.01"),
    ),
)  # fmt: skip


def at_sites(folder: Path) -> Ask:
    """A job whose rows lie at two sites, and stay there."""
    north, south = (f"{name}={folder / name}.jsonl" for name in ("north", "south"))
    words = ("--site", north, "--site", south, "--name", "rows-at-sites", "--zone", "sites",
             "--bid", "8", "--deadline", "+170s", "--set", "epochs=2")  # fmt: skip
    return Ask("rows at two sites that stay there: an adapter is trained where they are", words)


def main() -> int:
    """Run the demo; its exit code."""
    wanted = arguments()
    folder: Path = wanted.folder
    if (folder / "auctune.db").exists():
        shutil.rmtree(folder)
    data_of_sites = folder.with_name(f"{folder.name}-sites")
    subprocess.run([sys.executable, MAKE_SITES, data_of_sites], check=True)
    options = ["serve", "--config", str(HERE / "all-kinds.toml"), "--data", str(folder)]
    show([*options, "--port", "0"], "&")
    service = subprocess.Popen([*AUCTUNE, *options, "--port", "0"])
    try:
        if not is_open(service, folder):
            return 1
        tell_page(folder)
        code = bid(folder, [at_sites(data_of_sites), *ASKS])
        tell_page(folder)
        if wanted.stay:
            say("it goes on until Ctrl-C")
            service.wait()
    except KeyboardInterrupt:
        # A second one, or that of the service itself, changes nothing.
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        code = 0 if wanted.stay else 130
    finally:
        say("stop the service")
        service.terminate()
        service.wait(STOP_SECONDS)
    return code


def arguments() -> argparse.Namespace:
    """What was typed."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("folder", type=Path, nargs="?", default=Path("out/demo"))
    parser.add_argument("--stay", action="store_true", help="go on until Ctrl-C")
    return parser.parse_args()


def bid(folder: Path, asks: Sequence[Ask]) -> int:
    """What users and the operator do; an exit code."""
    here = ["--data", str(folder)]
    say("what would it cost? every zone that has the model is asked")
    asked = (data("support"), "--deadline", "+2m", "--set", "epochs=4")
    code = run(["quote", *asked, *here])
    for ask in asks:
        say(ask.remark)
        code = code or run(["submit", *ask.words, *here])
    say("the nine bids of the first market, each when it arrives; one has its data mended first")
    code = code or run(["submit", "--market", str(FIRST_MARKET / "market.toml"), *here])
    code = code or run(["watch", *here])
    code = code or run(["prices", "--zone", "rented", "--slots", "20", *here])
    return code or settle(folder)


def settle(folder: Path) -> int:
    """Show what became of all jobs, and where the money is; 0 if all are over and it adds up."""
    with Client(Transport(resolve_endpoint(None, None, folder))) as client:
        jobs = sorted(client.jobs(), key=lambda job: (job.market["zone"], job.name))
        balances = client.balances() or {}
        late = late_slots(client, jobs)
    say("all jobs")
    numbers = ("bid or cap", "paid", "loss")
    table = make_table("job", "zone", "decision", *numbers, "state", "reason", right=numbers)
    for job in jobs:
        table.add_row(*row_of(job))
    print_table(table)
    if late:
        tell_late(late)
    say("the ledger, debits positive")
    table = make_table("account", "balance", right=("balance",))
    for account, balance in balances.items():
        table.add_row(account, balance)
    total = sum(map(Decimal, balances.values()), Decimal())
    table.add_row("all of them", f"{total:.4f}")
    print_table(table)
    return 0 if total == 0 and all(job.is_over for job in jobs) else 1


def late_slots(client: Client, jobs: Sequence[Job]) -> dict[str, Counter[str]]:
    """Why plans had to be changed, and how often, by the job's name; those that kept theirs not."""
    found: dict[str, Counter[str]] = {}
    for job in jobs:
        # Events of a job that goes on have no end.
        events = client.events(job.id, after=0) if job.is_admitted and job.is_over else ()
        why = Counter(
            event.data["message"].rpartition(": ")[2]
            for event in events
            if event.type == "job.replanned"
        )
        if job.market["refunded"]:
            why[job.failure_reason] += 1
        if why:
            found[job.name] = why
    return found


def tell_late(late: Mapping[str, Counter[str]]) -> None:
    """Say what a busy machine changed."""
    say(
        "this machine was too busy for some slots. What they did not train was planned anew at no\n"
        "# charge, or refunded where it could not be done in time; a quiet machine keeps its plans"
    )
    table = make_table("job", "times", "what came in between", right=("times",))
    for name, why in late.items():
        for reason, times in why.items():
            table.add_row(name, str(times), reason)
    print_table(table)


def row_of(job: Job) -> tuple[str, ...]:
    """A job in the table of all."""
    market = job.market
    most = market["bid"] if job.metered is None else f"cap {job.metered['max_cost']}"
    decision = market["decision"] or "-"
    return (
        job.name,
        market["zone"],
        decision,
        most or "-",
        job.cost or "-",
        job.loss or "-",
        job.state,
        job.failure_reason,
    )


def tell_page(folder: Path) -> None:
    """Where the page is, and how to get in."""
    say(f"the page: {(folder / 'url').read_text().strip()}, with the key in {folder / 'first-key'}")


def is_open(service: "subprocess.Popen[bytes]", folder: Path) -> bool:
    """Wait until the service answers; whether it does."""
    end = time.monotonic() + OPEN_SECONDS
    while service.poll() is None and time.monotonic() < end:
        if (folder / "url").exists():
            return True
        time.sleep(0.2)
    return False


def run(arguments: list[str]) -> int:
    """Show a command and run it; 0 if it worked."""
    show(arguments)
    code = subprocess.run([*AUCTUNE, *arguments], check=False).returncode
    return 0 if code in GOOD else code


def show(arguments: list[str], behind: str = "") -> None:
    """A command as one would type it."""
    shown = [relative(argument) for argument in arguments]
    print(f"\n$ auctune {shlex.join(shown)} {behind}".rstrip(), flush=True)


def relative(argument: str) -> str:
    """A path from here, where it is one below."""
    path = Path(argument)
    here = Path.cwd()
    return str(path.relative_to(here)) if path.is_relative_to(here) else argument


def say(text: str) -> None:
    """A remark."""
    print(f"\n# {text}", flush=True)


if __name__ == "__main__":
    sys.exit(main())
