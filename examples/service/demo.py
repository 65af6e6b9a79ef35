"""Demo of the service with a zone of every kind, on this machine.

    python examples/service/demo.py [FOLDER] [--stay]

Measures this machine first, and sizes slots, epochs and deadlines by the result. On few cores the
auction is served first and the other zones after it, so that none is sold a small part of a core.

Prints each command before it runs, and at the end all jobs with decisions and payments, and the
balances of the ledger. The data of the service are in FOLDER (out/demo). With --stay the service
runs until Ctrl-C, so that its page can be opened.
"""

import argparse
import math
import shlex
import shutil
import signal
import subprocess
import sys
import time
import tomllib
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any

from auctune.cli._support.tables import make_table, print_table
from auctune.client import Client, Job, resolve_endpoint
from auctune.client.transport import Transport
from auctune.files.device_profile import Profile, read_profile
from auctune.service.config.generator import to_toml
from auctune.service.config.models import read_config
from auctune.service.config.zone import LanguageZoneConfig, ZoneConfig, divide_cores, usable_cores

HERE = Path(__file__).resolve().parent
FIRST_MARKET = HERE.parent / "first-market"
MAKE_SITES = HERE.parent / "edge" / "make_sites.py"
AUCTUNE = [sys.executable, "-m", "auctune"]
PROFILE = "cpu-core.json"
# The auction, the pool, two instances and two sites have a core each.
ENOUGH_CORES = 7
# The rest is left to the service, and to other programs.
SOLD_CORES = 0.75
# Of an optimizer batch of eight short rows.
BATCH_TOKENS = 256
MEASURE_SECONDS = 15
MIN_START_SECONDS = 10.0
# The example's deadlines leave jobs of the pool and the sites so many times what they need.
SPARE_TIME = 8
SEED = 7
RENTED_EPOCHS = 8
SITE_EPOCHS = 2
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


class Plan:
    """Settings and jobs of the demo on a machine as it was measured.

    On one that is slower than that of the example, jobs have fewer epochs rather than a longer
    demo; slots and deadlines are longer where even the fewest epochs take longer.

    Args:
        profile: of one core of this machine.
        cores: that the process may use.
        start_seconds: time for a process to start and to load the base.
        folder: for the files of settings.
    """

    def __init__(self, profile: Profile, cores: float, start_seconds: float, folder: Path) -> None:
        self._start_seconds = math.ceil(start_seconds)
        self._folder = folder
        self._settings = tomllib.loads((HERE / "all-kinds.toml").read_text())
        self._zones = {zone["name"]: zone for zone in self._settings["zones"]}
        for zone in self._zones.values():
            self._place_files(zone)
        example = read_profile(FIRST_MARKET / "cpu-core.json")
        self._slowness = speed(example) / speed(profile)
        names = list(self._zones)
        self.phases = [names] if cores >= ENOUGH_CORES else [names[:1], names[1:]]
        self._shares = {}
        for phase in self.phases:
            for zone in self._divided(phase, SOLD_CORES * cores):
                assert isinstance(zone, LanguageZoneConfig)
                self._shares[zone.name] = zone.worker_share
                self._zones[zone.name]["cores"] = zone.worker_cores * zone.num_cpu_workers
        market = self._zones[names[0]]
        epochs = {one["id"]: one["epochs"] for one in self._bids}
        self._stretch(market, max(self._stretch_of(market, count) for count in epochs.values()))
        rented, pool, sites = (self._zones[name] for name in names[1:])
        self._stretch(rented, self._stretch_of(rented, RENTED_EPOCHS))
        self._stretch(pool, max(1.0, self._ratio(pool) / SPARE_TIME))
        self._stretch(sites, max(1.0, self._stretch_of(sites, SITE_EPOCHS) / SPARE_TIME))

    def settings(self, names: Sequence[str]) -> Path:
        """Write the settings of a service with these zones."""
        file = self._folder / f"{names[0]}.toml"
        zones = "".join(f"\n[[zones]]\n{_lines(self._zones[name])}" for name in names)
        file.write_text(f"# Made by examples/service/demo.py for this machine.\n{zones}")
        return file

    def bids(self) -> Path:
        """Write the first market with the epochs of this machine."""
        market = tomllib.loads((FIRST_MARKET / "market.toml").read_text())
        zone = self._zones["first-market"]
        for bid in market["bids"]:
            bid["data"] = data(Path(bid["data"]).stem)
            if "validation" in bid:
                bid["validation"] = str(FIRST_MARKET / bid["validation"])
            bid["seed"] = SEED
            # Nobody could do this one by its deadline, whatever the machine.
            if bid["id"] != "tomorrow":
                share = self.epochs(zone, bid["epochs"]) / bid["epochs"]
                bid["epochs"] = self.epochs(zone, bid["epochs"])
                if bid["id"] == "bargain":
                    bid["bid"] = round(bid["bid"] * share, 2)
        bids = "".join(f"\n[[bids]]\n{_lines(bid)}" for bid in market.pop("bids"))
        for node_type in market["node_types"].values():
            node_type["profile"] = str(FIRST_MARKET / node_type["profile"])
        file = self._folder / "market.toml"
        file.write_text(_lines(market) + bids)
        return file

    def jobs(self, names: Sequence[str], site_data: Path) -> list[DemoJob]:
        """Return the jobs of these zones, in the order of their submission."""
        found = []
        if "sites" in names:
            found.append(self._site_job(site_data))
        if "rented" in names:
            found += self._rented_jobs()
        if "pool" in names:
            found += self._pool_jobs()
        return found

    def epochs(self, zone: Mapping[str, Any], count: int) -> int:
        """Return the epochs that take as long here as `count` epochs in the example."""
        return max(1, min(count, round(count / self._ratio(zone))))

    def seconds(self, name: str, slots: int) -> str:
        """Return a deadline so many slots of a zone from now, after a process has started."""
        return f"+{math.ceil(self._start_seconds + slots * self._zones[name]['slot_seconds'])}s"

    def _site_job(self, folder: Path) -> DemoJob:
        north, south = (f"{name}={folder / name}.jsonl" for name in ("north", "south"))
        epochs = self.epochs(self._zones["sites"], SITE_EPOCHS)
        arguments = ("--site", north, "--site", south, "--name", "rows-at-sites", "--zone", "sites",
                     "--bid", "30", "--deadline", self.seconds("sites", 17),
                     "--set", f"epochs={epochs}", "--set", f"seed={SEED}")  # fmt: skip
        return DemoJob("rows at two sites: the adapter is trained there, and they stay", arguments)

    def _rented_jobs(self) -> list[DemoJob]:
        zone = self._zones["rented"]
        value = f"40@{self.seconds('rented', 20)}..{self.seconds('rented', 40)}"
        return [
            # First: while one that fits runs, the zone takes no other.
            DemoJob(
                "spot instances, with too low a cap: the rejection names a sufficient one",
                (data("garden"), "--name", "thrifty", "--zone", "rented", "--max-cost", "0.05",
                 "--deadline", self.seconds("rented", 20), "--set", "epochs=4",
                 "--set", f"seed={SEED}"),
            ),
            DemoJob(
                "spot instances: value 40 until a deadline, and 0 later; costs at most 15",
                (data("support"), "--name", "support-rented", "--zone", "rented", "--max-cost",
                 "15", "--value", value, "--set", f"epochs={self.epochs(zone, RENTED_EPOCHS)}",
                 "--set", "learning_rate=0.005", "--set", f"seed={SEED}"),
            ),
        ]  # fmt: skip

    def _pool_jobs(self) -> list[DemoJob]:
        # A second of the pool trains less here than in the example.
        cap = f"{math.ceil(3 * self._ratio(self._zones['pool']))}"
        jobs = (
            ("trained to a target loss, on a pool that is charged by the second",
             "weather", "1.0", cap),
            ("a second job on the pool, which is shared so that both meet their deadlines",
             "mood", "1.3", cap),
            ("a target loss that the cap does not suffice for", "recipes", "0.1", "0.20"),
        )  # fmt: skip
        return [
            DemoJob(
                comment,
                (data(name), "--name", f"{name}-to-{loss}", "--zone", "pool", "--target-loss", loss,
                 "--max-cost", most, "--deadline", self.seconds("pool", 50),
                 "--set", "learning_rate=0.01", "--set", f"seed={SEED}"),
            )
            for comment, name, loss, most in jobs
        ]  # fmt: skip

    @property
    def _bids(self) -> list[dict[str, Any]]:
        bids = tomllib.loads((FIRST_MARKET / "market.toml").read_text())["bids"]
        return [bid for bid in bids if bid["id"] != "tomorrow"]

    def _place_files(self, zone: dict[str, Any]) -> None:
        if zone.get("kind") == "spot":
            zone["market"] = str((HERE / zone["market"]).resolve())
            zone["start_seconds"] = self._start_seconds
        types = zone.get("node_types", {"": zone})
        for one in types.values():
            one["profile"] = str(self._folder / PROFILE)

    def _divided(self, names: Sequence[str], cores: float) -> Sequence[ZoneConfig]:
        config = read_config(self.settings(names))
        divide_cores(config.zones, cores)
        return config.zones

    def _ratio(self, zone: Mapping[str, Any]) -> float:
        """Return the time of a pass as it is sold here, relative to that of the example."""
        return self._slowness / self._shares[zone["name"]]

    def _stretch_of(self, zone: Mapping[str, Any], epochs: int) -> float:
        return max(1.0, self._ratio(zone) * self.epochs(zone, epochs) / epochs)

    def _stretch(self, zone: dict[str, Any], factor: float) -> None:
        zone["slot_seconds"] = math.ceil(zone["slot_seconds"] * factor)


def speed(profile: Profile) -> float:
    """Return tokens a second in batches as the demo has them."""
    return profile.tokens_per_second(profile.reference_batch(BATCH_TOKENS))


def _lines(table: Mapping[str, Any]) -> str:
    return "".join(f"{key} = {to_toml(value)}\n" for key, value in table.items())


def main() -> int:
    """Run the demo; return its exit code."""
    options = parse_options()
    folder: Path = options.folder
    if (folder / "auctune.db").exists():
        shutil.rmtree(folder)
    site_data = folder.with_name(f"{folder.name}-sites")
    subprocess.run([sys.executable, MAKE_SITES, site_data], check=True)
    plan = make_plan(folder.with_name(f"{folder.name}-settings").resolve())
    code = 0
    for names in plan.phases:
        code = code or serve(plan, names, folder, site_data, stays=options.stay)
    return code


def make_plan(folder: Path) -> Plan:
    """Measure this machine."""
    folder.mkdir(parents=True, exist_ok=True)
    comment("what can a core of this machine do now?")
    command = ["profile", "--base", "tiny", "--threads", "1", "--seconds", str(MEASURE_SECONDS)]
    started = time.monotonic()
    if run([*command, "--out", str(folder / PROFILE)]):
        raise SystemExit(1)
    start_seconds = max(MIN_START_SECONDS, time.monotonic() - started - MEASURE_SECONDS)
    return Plan(read_profile(folder / PROFILE), usable_cores(), start_seconds, folder)


def serve(plan: Plan, names: Sequence[str], folder: Path, site_data: Path, *, stays: bool) -> int:
    """Run a service with these zones until their jobs have ended; return an exit code."""
    is_last = names == plan.phases[-1]
    if len(plan.phases) > 1:
        comment(f"this machine has few cores, so these zones run alone: {', '.join(names)}")
    command = ["serve", "--config", str(plan.settings(names)), "--data", str(folder)]
    command += ["--port", "0"]
    print_command(command, "&")
    (folder / "url").unlink(missing_ok=True)
    service = subprocess.Popen([*AUCTUNE, *command])
    try:
        if not wait_until_serving(service, folder):
            return 1
        print_url(folder)
        code = run_jobs(folder, plan, names, site_data)
        if is_last:
            code = code or show_results(folder)
            print_url(folder)
        if is_last and stays:
            comment("the service runs until Ctrl-C")
            service.wait()
    except KeyboardInterrupt:
        # Ignore further ones: the service has received this one, too, and is stopping.
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        code = 0 if stays and is_last else 130
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


def run_jobs(folder: Path, plan: Plan, names: Sequence[str], site_data: Path) -> int:
    """Quote, submit and watch the jobs of these zones; return an exit code."""
    here = ["--data", str(folder)]
    comment("what would it cost? quotes of all zones that have the model")
    slots = 20 if names[0] == "rented" else 8
    terms = ["--deadline", plan.seconds(names[0], slots), "--set", "epochs=2"]
    code = run(["quote", data("support"), *terms, *here])
    for job in plan.jobs(names, site_data):
        comment(job.comment)
        code = code or run(["submit", *job.arguments, *here])
    if "first-market" in names and not code:
        comment("the nine bids of the first market at their arrivals; the data of one are repaired")
        code = run(["submit", "--market", str(plan.bids()), *here])
    code = code or run(["watch", *here])
    if "rented" in names:
        code = code or run(["prices", "--zone", "rented", "--slots", "20", *here])
    return code


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
