"""`auctune run`: a market file to the end, or an earlier run from where it was."""

import hashlib
import os
from pathlib import Path

from rich.console import Console

from auctune.domain import InputError
from auctune.run.console import RunConsole
from auctune.run.folder import RunFolder, check_new, clear
from auctune.run.journal import Journal
from auctune.run.market_run import MarketRun
from auctune.run.outcome import make_report
from auctune.run.prepared import Prepared, named_files, prepare, relocate
from auctune.run.report_data import MarketReport
from auctune.run.state import VERSION
from auctune.train.device_profile import Profile, read_profile, write_profile


def base_cache() -> Path:
    """Where bases that are built on this machine are kept."""
    root = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(root) / "auctune" / "bases"


def run_market(market: Path, out: Path, console: Console, *, fresh: bool = False) -> MarketReport:
    """Run a market file from its first slot.

    Args:
        market: the file.
        out: folder for what comes out; new, empty, or (with `fresh`) of an earlier run.
        console: shows what happens.
        fresh: delete an earlier run in `out`.

    Raises:
        InputError: if anything in the market or about the folder is wrong; nothing is written.
        NodeError: if training cannot go on; the run can be resumed.
    """
    folder = RunFolder(out)
    check_new(folder, fresh=fresh)

    def resolve(given: str) -> Path:
        return market.parent / Path(given).expanduser()

    with RunConsole(console) as shown:
        prepared = prepare(market, resolve, base_cache(), {}, shown.preparing)
        shown.prepared()
        out.mkdir(parents=True, exist_ok=True)
        with folder.locked():
            clear(folder)
        files = [given for _, given in named_files(prepared.market)]
        folder.create(market, [(given, resolve(given)) for given in files])
        with folder.locked():
            _keep_profiles(folder, prepared)
            journal = Journal(folder.journal)
            journal.append({"type": "begun", "version": VERSION, "market": _digest(folder.market)})
            # From here on only the copies count: a resumed run reads what this one read.
            return _run(relocate(prepared, folder.resolve), folder, journal, shown)


def resume_market(out: Path, console: Console) -> MarketReport:
    """Go on with an earlier run; one that has ended only writes its report again.

    Raises:
        InputError: if there is no run in `out`, or its state is damaged.
        NodeError: as `run_market`.
    """
    folder = RunFolder(out)
    if not folder.exists():
        raise InputError(f"--resume {out}", "holds no run", "the --out folder of an earlier run")
    with folder.locked(), RunConsole(console) as shown:
        journal = Journal(folder.journal)
        if not journal.events or journal.events[0]["market"] != _digest(folder.market):
            raise InputError(
                str(folder.market), "is not the file of this run", "the copy made when it began"
            )
        prepared = prepare(
            folder.market,
            folder.resolve,
            base_cache(),
            _kept_profiles(folder),
            shown.preparing,
            place=f"{out}: market",
        )
        shown.prepared()
        return _run(prepared, folder, journal, shown)


def _run(
    prepared: Prepared, folder: RunFolder, journal: Journal, shown: RunConsole
) -> MarketReport:
    try:
        run = MarketRun(prepared, folder, journal, base_cache(), shown)
        for text in prepared.notes:
            shown.noted(text)
        state = run.run()
        return make_report(folder, prepared, state)
    finally:
        journal.close()


def _keep_profiles(folder: RunFolder, prepared: Prepared) -> None:
    for name, entry in prepared.market.node_types.items():
        if entry.measure:
            write_profile(prepared.profiles[name], folder.profile(name))


def _kept_profiles(folder: RunFolder) -> dict[str, Profile]:
    paths = (folder.state / "profiles").glob("*.json")
    return {path.stem: read_profile(path) for path in sorted(paths)}


def _digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()
