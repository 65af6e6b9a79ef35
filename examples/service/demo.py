"""Demo of the service with a zone of every kind, on this machine.

    python examples/service/demo.py [FOLDER] [--stay]

Prints each command before it runs, and at the end all jobs with decisions and payments, and the
balances of the ledger. The data of the service are in FOLDER (out/demo). With --stay the service
runs until Ctrl-C, so that its page can be opened.
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
# On a busy machine it takes a while to build the base, profile the device and compile.
START_SECONDS = 600
STOP_SECONDS = 60
# Exit codes of success, and of success with rejected bids.
SUCCESS = (0, 3)


@dataclass(frozen=True, slots=True)
class DemoJob:
    """A job of the demo.

    Attributes:
        comment: what it shows.
        arguments: of `auctune submit`.
    """

    comment: str
    arguments: Sequence[str]


def data(name: str) -> str:
    """Return the path of a data set of the first market."""
    return str(FIRST_MARKET / "data" / f"{name}.jsonl")


JOBS = (
    DemoJob(
        "spot instances: value 40 within two minutes, 0 after four; costs at most 15",
        (data("support"), "--name", "support-rented", "--zone", "rented", "--max-cost", "15",
         "--value", "40@+2m..+4m", "--set", "epochs=8", "--set", "learning_rate=0.005"),
    ),
    DemoJob(
        "the same with too low a cap: the rejection names a sufficient one",
        (data("garden"), "--name", "thrifty", "--zone", "rented", "--max-cost", "0.05",
         "--deadline", "+2m", "--set", "epochs=4"),
    ),
    DemoJob(
        "trained to a target loss, on a pool that is charged by the second",
        (data("weather"), "--name", "weather-to-1.0", "--target-loss", "1.0", "--max-cost", "3",
         "--deadline", "+150s", "--set", "learning_rate=0.01"),
    ),
    DemoJob(
        "a second job on the pool, which is shared so that both meet their deadlines",
        (data("mood"), "--name", "mood-to-1.3", "--target-loss", "1.3", "--max-cost", "3",
         "--deadline", "+150s", "--set", "learning_rate=0.01"),
    ),
    DemoJob(
        "a target loss that the cap does not suffice for",
        (data("recipes"), "--name", "recipes-to-0.1", "--target-loss", "0.1",
         "--max-cost", "0.20", "--deadline", "+120s", "--set", "learning_rate=0.01"),
    ),
)  # fmt: skip


def site_job(folder: Path) -> DemoJob:
    """Return a job whose rows are at two sites, and stay there."""
    north, south = (f"{name}={folder / name}.jsonl" for name in ("north", "south"))
    arguments = ("--site", north, "--site", south, "--name", "rows-at-sites", "--zone", "sites",
                 "--bid", "8", "--deadline", "+170s", "--set", "epochs=2")  # fmt: skip
    return DemoJob("rows at two sites: the adapter is trained there, and they stay", arguments)


def main() -> int:
    """Run the demo; return its exit code."""
    options = parse_options()
    folder: Path = options.folder
    if (folder / "auctune.db").exists():
        shutil.rmtree(folder)
    site_data = folder.with_name(f"{folder.name}-sites")
    subprocess.run([sys.executable, MAKE_SITES, site_data], check=True)
    command = ["serve", "--config", str(HERE / "all-kinds.toml"), "--data", str(folder)]
    command += ["--port", "0"]
    print_command(command, "&")
    service = subprocess.Popen([*AUCTUNE, *command])
    try:
        if not wait_until_serving(service, folder):
            return 1
        print_url(folder)
        code = run_jobs(folder, [site_job(site_data), *JOBS])
        print_url(folder)
        if options.stay:
            comment("the service runs until Ctrl-C")
            service.wait()
    except KeyboardInterrupt:
        # Ignore further ones: the service has received this one, too, and is stopping.
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        code = 0 if options.stay else 130
    finally:
        comment("stop the service")
        service.terminate()
        service.wait(STOP_SECONDS)
    return code


def parse_options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("folder", type=Path, nargs="?", default=Path("out/demo"))
    parser.add_argument("--stay", action="store_true", help="keep the service running until Ctrl-C")
    return parser.parse_args()


def run_jobs(folder: Path, jobs: Sequence[DemoJob]) -> int:
    """Quote, submit and watch jobs; return an exit code."""
    here = ["--data", str(folder)]
    comment("what would it cost? quotes of all zones that have the model")
    code = run(["quote", data("support"), "--deadline", "+2m", "--set", "epochs=4", *here])
    for job in jobs:
        comment(job.comment)
        code = code or run(["submit", *job.arguments, *here])
    comment("the nine bids of the first market at their arrivals; the data of one are repaired")
    code = code or run(["submit", "--market", str(FIRST_MARKET / "market.toml"), *here])
    code = code or run(["watch", *here])
    code = code or run(["prices", "--zone", "rented", "--slots", "20", *here])
    return code or show_results(folder)


def show_results(folder: Path) -> int:
    """Print jobs and balances; return 0 if all jobs have ended and the balances sum to 0."""
    with Client(Transport(resolve_endpoint(None, None, folder))) as client:
        jobs = sorted(client.jobs(), key=lambda job: (job.market["zone"], job.name))
        balances = client.balances() or {}
        disruptions = find_disruptions(client, jobs)
    comment("all jobs")
    numbers = ("bid or cap", "paid", "loss")
    table = make_table("job", "zone", "decision", *numbers, "state", "reason", right=numbers)
    for job in jobs:
        table.add_row(*row_of(job))
    print_table(table)
    if disruptions:
        print_disruptions(disruptions)
    comment("the ledger, debits positive")
    table = make_table("account", "balance", right=("balance",))
    for account, balance in balances.items():
        table.add_row(account, balance)
    total = sum(map(Decimal, balances.values()), Decimal())
    table.add_row("sum", f"{total:.4f}")
    print_table(table)
    return 0 if total == 0 and all(job.is_over for job in jobs) else 1


def find_disruptions(client: Client, jobs: Sequence[Job]) -> dict[str, Counter[str]]:
    """Return the reasons of new plans and refunds, counted, by the name of the job."""
    disruptions: dict[str, Counter[str]] = {}
    for job in jobs:
        # The stream of events of an open job does not end.
        events = client.events(job.id, after=0) if job.is_admitted and job.is_over else ()
        reasons = Counter(
            event.data["message"].rpartition(": ")[2]
            for event in events
            if event.type == "job.replanned"
        )
        if job.market["refunded"]:
            reasons[job.failure_reason] += 1
        if reasons:
            disruptions[job.name] = reasons
    return disruptions


def print_disruptions(disruptions: Mapping[str, Counter[str]]) -> None:
    """Print jobs that a busy machine has delayed."""
    comment(
        "this machine was too busy in some slots. Their training was rescheduled without charge,\n"
        "# or refunded if no slot before the deadline was left"
    )
    table = make_table("job", "times", "reason", right=("times",))
    for name, reasons in disruptions.items():
        for reason, times in reasons.items():
            table.add_row(name, str(times), reason)
    print_table(table)


def row_of(job: Job) -> tuple[str, ...]:
    market = job.market
    limit = market["bid"] if job.metered is None else f"cap {job.metered['max_cost']}"
    return (
        job.name,
        market["zone"],
        market["decision"] or "-",
        limit or "-",
        job.cost or "-",
        job.loss or "-",
        job.state,
        job.failure_reason,
    )


def print_url(folder: Path) -> None:
    url = (folder / "url").read_text().strip()
    comment(f"the page: {url}, with the key in {folder / 'first-key'}")


def wait_until_serving(service: "subprocess.Popen[bytes]", folder: Path) -> bool:
    """Return whether the service starts within the timeout."""
    end = time.monotonic() + START_SECONDS
    while service.poll() is None and time.monotonic() < end:
        if (folder / "url").exists():
            return True
        time.sleep(0.2)
    return False


def run(arguments: list[str]) -> int:
    """Print a command and run it; return 0 on success."""
    print_command(arguments)
    code = subprocess.run([*AUCTUNE, *arguments], check=False).returncode
    return 0 if code in SUCCESS else code


def print_command(arguments: list[str], suffix: str = "") -> None:
    """Print a command as one would type it in this folder."""
    shown = [relative(argument) for argument in arguments]
    print(f"\n$ auctune {shlex.join(shown)} {suffix}".rstrip(), flush=True)


def relative(argument: str) -> str:
    path = Path(argument)
    here = Path.cwd()
    return str(path.relative_to(here)) if path.is_relative_to(here) else argument


def comment(text: str) -> None:
    print(f"\n# {text}", flush=True)


if __name__ == "__main__":
    sys.exit(main())
