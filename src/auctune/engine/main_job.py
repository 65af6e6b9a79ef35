"""`auctune run`: a market file to the end, or an earlier run from where it was."""

from collections.abc import Mapping
from pathlib import Path

from rich.console import Console

from auctune.device_profile import Profile, read_profile
from auctune.domain import InputError
from auctune.engine.base_place import base_cache
from auctune.engine.console import RunConsole
from auctune.engine.event_log import EventLog, EventRecord
from auctune.engine.market.directory import MarketDirectory, begin, check_new
from auctune.engine.market.report_data import MarketReport
from auctune.engine.market_run import MarketRun
from auctune.engine.prepared import Prepared, beside, node_settings, prepare, relocate
from auctune.engine.runtime.local import LocalLauncher, start_fork_server
from auctune.engine.runtime.messages import NodeSettings, node_workers
from auctune.engine.runtime.ray.launcher import RayLauncher
from auctune.engine.runtime.ray.params import RayParams
from auctune.engine.runtime.supervisor import Executor, OnNodeMessage, SupervisorPolicy
from auctune.engine.runtime.worker import Launcher
from auctune.engine.state import VERSION

# A worker saves all of its tasks before it exits, however large they are.
_POLICY = SupervisorPolicy(stop_seconds=30.0)


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
    folder = MarketDirectory(out)
    check_new(folder, fresh=fresh)
    start_fork_server()
    with RunConsole(console) as shown:
        prepared = prepare(market, beside(market), base_cache(), {}, shown.preparing)
        shown.prepared()
        out.mkdir(parents=True, exist_ok=True)
        with folder.locked() as lock:
            # Measuring takes a while: somebody else may have begun a run here.
            check_new(folder, fresh=fresh)
            _begin(folder, prepared)
            # From here on only the copies count: a resumed run reads what this one read.
            return _run(relocate(prepared, folder.resolve), folder, lock, shown)


def resume_market(out: Path, console: Console) -> MarketReport:
    """Go on with an earlier run; one that has ended only writes its report again.

    Raises:
        InputError: if there is no run in `out`, or its state is damaged.
        NodeError: as `run_market`.
    """
    folder = MarketDirectory(out)
    if not folder.exists():
        raise InputError(f"--resume {out}", "holds no run", "the --out folder of an earlier run")
    start_fork_server()
    with folder.locked() as lock, RunConsole(console) as shown:
        begun = _read_begun(folder)
        folder.clean_temp_files()
        prepared = prepare(
            folder.market,
            folder.resolve,
            base_cache(),
            _kept_profiles(folder),
            shown.preparing,
            place=f"{out}: market",
            base=begun["base"],
        )
        if prepared.base_digest != begun["base_digest"]:
            raise InputError(
                f"base {begun['base']!r}", "has changed since the run began", "the same weights"
            )
        shown.prepared()
        return _run(prepared, folder, lock, shown)


def _begin(folder: MarketDirectory, prepared: Prepared) -> None:
    measured = {
        name: prepared.profiles[name].to_json()
        for name, entry in prepared.market.node_types.items()
        if entry.measure
    }
    begun = {
        "type": "begun",
        "version": VERSION,
        "base": prepared.base,
        "base_digest": prepared.base_digest,
    }
    begin(folder, prepared.files, measured, begun)


def _read_begun(folder: MarketDirectory) -> EventRecord:
    """The journal's first event, once all that the run began with is as it was.

    Raises:
        InputError: if it is not.
    """
    journal = EventLog(folder.event_log)
    journal.close()
    if not journal.events:
        raise InputError(str(folder.event_log), "is empty", "what happened in the run")
    begun = journal.events[0]
    if begun["version"] != VERSION:
        raise InputError(
            str(folder.event_log),
            f"is of version {begun['version']}",
            f"version {VERSION}, that of this release",
        )
    folder.check_inputs(begun)
    return begun


def _run(prepared: Prepared, folder: MarketDirectory, lock: int, shown: RunConsole) -> MarketReport:
    def make_executor(on_message: OnNodeMessage) -> Executor:
        settings = {
            node.id: node_settings(
                prepared.market,
                node.type,
                prepared.base,
                base_cache(),
                prepared.profiles[node.type],
            )
            for node in prepared.cluster.nodes
        }
        return Executor(settings, _launcher(prepared, folder, settings, lock), on_message, _POLICY)

    journal = EventLog(folder.event_log)
    try:
        for text in prepared.notes:
            shown.noted(text)
        return MarketRun(prepared, folder, journal, shown, make_executor).run()
    finally:
        journal.close()


def _launcher(
    prepared: Prepared, folder: MarketDirectory, settings: Mapping[str, NodeSettings], lock: int
) -> Launcher:
    """Return the launcher that the market file names."""
    market = prepared.market
    if market.executor == "local":
        return LocalLauncher(node_workers(settings, folder.logs), lock=lock)
    return RayLauncher(
        settings,
        folder.state / "work",
        params=market.ray or RayParams(),
        resources={node.id: node.resource for node in market.nodes if node.resource is not None},
        logs=folder.logs,
        lock=lock,
    )


def _kept_profiles(folder: MarketDirectory) -> dict[str, Profile]:
    paths = (folder.state / "profiles").glob("*.json")
    return {path.stem: read_profile(path) for path in sorted(paths)}
