"""Everything that a market run needs before its first slot: read, measured and checked."""

import queue
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from auctune.domain import Admission, Cluster, InputError, Task
from auctune.domain.base_name import resolve_base
from auctune.engine.data.examiner import Examiner
from auctune.engine.market.demand import Appraiser, Bid, Request, make_bids
from auctune.engine.market.market_file import MarketFile, Resolve
from auctune.engine.market.supply import make_cluster, threads_per_node
from auctune.engine.messages.node import (
    Measure,
    Measured,
    Measuring,
    NodeReady,
    NodeReply,
    RequestFailed,
)
from auctune.engine.runtime.local import start_node
from auctune.engine.runtime.nodes import NodeError, NodeSettings
from auctune.engine.vendors import RepairVendor
from auctune.files.device_profile import Profile, physical_devices
from auctune.registry.mechanisms import build, check_settings, settled_settings
from auctune.sim.engine import warm_up
from auctune.sim.instance import Instance
from auctune.train.base import Base, check_device, load_base
from auctune.train.multilora.adapters import check_start
from auctune.train.tiny import tiny_folder

Report = Callable[[str, float], None]
"""Called with the step in progress, and the share of it that is done, from 0 to 1."""


@dataclass(frozen=True, slots=True)
class Prepared:
    """A market that can be run.

    Attributes:
        market: the file.
        cluster: the supply.
        profiles: by node type.
        bids: in file order.
        vendors: by name.
        base: its name for the nodes, as `resolve_base` gives it.
        base_digest: SHA-256 over its configuration and weights.
        appraiser: sizes data by the base's tokenizer.
        mechanism: a new one, over the empty cluster.
        settings: of the mechanism, with which a replay makes it without the bids.
        notes: what an operator should know.
    """

    market: MarketFile
    cluster: Cluster
    profiles: dict[str, Profile]
    bids: tuple[Bid, ...]
    vendors: dict[str, RepairVendor]
    base: str
    base_digest: str
    appraiser: Appraiser
    mechanism: Admission
    settings: dict[str, str]
    notes: tuple[str, ...]


def prepare(
    market: MarketFile,
    place: str,
    base: str,
    resolve: Resolve,
    cache: Path,
    known_profiles: Mapping[str, Profile],
    report: Report,
) -> Prepared:
    """Read all that a market file names, and measure the nodes that ask for it; write nothing.

    Args:
        market: the file.
        place: its name in errors.
        base: name of its base, as of `input_files`.
        resolve: finds the files that it names.
        cache: folder of bases that are built here.
        known_profiles: measured earlier in this run, by node type.
        report: called with the progress.

    Raises:
        InputError: for the first thing that is wrong.
    """
    vendors: dict[str, RepairVendor] = {v.name: RepairVendor(v.params()) for v in market.vendors}
    try:
        given = _read_profiles(market, resolve)
        _check_devices(market)
        loaded = _load_base(base, market.dtype, cache, report)
        report("reading the data sets", 0.0)
        examiner = Examiner(loaded.tokenizer, loaded.context_tokens)
        appraiser = Appraiser(examiner, tuple(vendors.values()), resolve)
        requests = appraiser.requests(market.bids, partial(check_start, loaded))
        profiles = {**given, **known_profiles}
        for kind in market.node_types:
            if kind not in profiles:
                profiles[kind] = _measure(market, kind, base, cache, report)
        # Slots of a market end with their checkpoints.
        profiles = {kind: one.waiting_for_checkpoints() for kind, one in profiles.items()}
        cluster = make_cluster(market, profiles)
        bids = tuple(make_bids(market, cluster, profiles, requests))
        report("readying the auction (compiled once on this machine)", 0.0)
        mechanism = _ready_mechanism(market, cluster, bids)
        settings = settled_settings(*auction_settings(market), [bid.task for bid in bids])
    except InputError as error:
        raise error.within(place) from None
    return Prepared(
        market=market,
        cluster=cluster,
        profiles=profiles,
        bids=bids,
        vendors=vendors,
        base=base,
        base_digest=loaded.digest,
        appraiser=appraiser,
        mechanism=mechanism,
        settings=settings,
        notes=(
            *_data_notes(requests),
            *_profile_notes(given, loaded),
            *_thread_notes(given, threads_per_node(market)),
            *_sold_notes(profiles),
        ),
    )


def input_files(market: MarketFile, path: Path) -> tuple[str, dict[str, Path]]:
    """Return the name of a market's base, and the files that it names, with itself as "".

    Paths in it start from its own folder. Nothing is read.

    Args:
        market: the file.
        path: where it is.

    Raises:
        InputError: if there is no such base, file or device, or a setting of the auction is wrong.
    """
    files, place = {"": path}, str(path)
    try:
        # A mistyped setting shows now, and not after minutes of measuring.
        _check_auction(market)
        for field, given in _named_files(market):
            files[given] = found = _beside(path, given)
            if field.endswith(".start_from"):
                if not (_is_file(found) or found.is_dir()):
                    raise InputError(field, f"there is no folder {given!r}", "an adapter's folder")
            elif not _is_file(found):
                raise InputError(field, f"there is no file {given!r}", "the path of a file")
        # They may be large: what can be known before they are copied is checked before.
        _check_devices(market)
        return resolve_base(market.base, path.parent), files
    except InputError as error:
        raise error.within(place) from None


def _beside(market: Path, given: str) -> Path:
    path = Path(given)
    try:
        return market.parent / path.expanduser()
    except RuntimeError:
        # There is no user of that name, so "~name" is a file's.
        return market.parent / path


def file_fields(market: MarketFile, place: str) -> dict[str, str]:
    """Return for each file that a market names the field that does, for errors."""
    return {given: f"{place}: {field}" for field, given in _named_files(market)}


def _named_files(market: MarketFile) -> Iterable[tuple[str, str]]:
    """Yield every file that a market names: its field, and the path as given."""
    for name, entry in market.node_types.items():
        if entry.profile is not None:
            yield f"node_types.{name}.profile", entry.profile
    for index, bid in enumerate(market.bids):
        yield f"bids[{index}].data", bid.data
        if bid.validation is not None:
            yield f"bids[{index}].validation", bid.validation
        if bid.start_from is not None:
            yield f"bids[{index}].start_from", bid.start_from


def node_settings(
    market: MarketFile, node_type: str, base: str, cache: Path, profile: Profile | None = None
) -> NodeSettings:
    """How a node's process is started; the profile says which passes suit the device."""
    entry = market.node_types[node_type]
    settings = NodeSettings(
        base=base,
        cache=str(cache),
        device=entry.device,
        num_devices=entry.devices,
        dtype=market.dtype,
        mode=market.mode,
        threads=threads_per_node(market),
        measure_seconds=market.measure_seconds,
        backend=market.backend,
        gradient_checkpointing=market.gradient_checkpointing,
    )
    if profile is None:
        return settings
    return replace(
        settings,
        token_budget=profile.micro_batch_tokens,
    )


def _is_file(path: Path) -> bool:
    # Where a name is too long, or a folder may not be read, there is no file for us.
    with suppress(OSError):
        return path.is_file()
    return False


def auction_settings(market: MarketFile) -> tuple[str, dict[str, str]]:
    """Return name and settings of a market's mechanism."""
    settings = {key: str(value) for key, value in market.auction.items()}
    return settings.pop("mechanism", "pdftsp"), settings


def _check_auction(market: MarketFile) -> None:
    try:
        check_settings(*auction_settings(market))
    except InputError as error:
        raise error.within("auction") from None


def _check_devices(market: MarketFile) -> None:
    if market.uses_external_cluster:
        return
    for name, entry in market.node_types.items():
        try:
            for device in physical_devices(entry.device, entry.devices):
                check_device(device, market.dtype)
        except InputError as error:
            raise error.within(f"node_types.{name}") from None


def _read_profiles(market: MarketFile, resolve: Resolve) -> dict[str, Profile]:
    profiles = {}
    for name, entry in market.node_types.items():
        if entry.profile is not None:
            text, place = resolve(entry.profile).read_bytes(), f"node_types.{name}.profile"
            profiles[name] = Profile.from_json(text, place)
            profiles[name].check_settings(place, market.gradient_checkpointing, entry.devices)
    return profiles


def _load_base(name: str, dtype: str, cache: Path, report: Report) -> Base:
    if name == "tiny":
        what = "building the tiny base (once on this machine)"
        tiny_folder(cache, progress=lambda share: report(what, share))
    report(f"loading the base {name}", 0.0)
    base = load_base(name, cache=cache, dtype=dtype)
    report(f"loading the base {name}", 1.0)
    return base


def _measure(market: MarketFile, name: str, base: str, cache: Path, report: Report) -> Profile:
    """Measure a node type in a process like the one that will train."""
    inbox: queue.SimpleQueue[NodeReply | None] = queue.SimpleQueue()
    process = start_node(node_settings(market, name, base, cache), inbox.put)
    try:
        while True:
            match message := inbox.get():
                case None:
                    raise NodeError(f"measuring {name} failed: {process.exit_reason()}")
                case NodeReady():
                    process.send(Measure())
                case Measuring():
                    report(f"measuring {name}: {message.what}", message.share)
                case RequestFailed(error=error):
                    place = f"node_types.{name}: {error.place}"
                    raise InputError(place, error.found, error.expected)
                case Measured():
                    return Profile.from_json(message.profile, f"profile of {name}")
    finally:
        process.stop()


def _ready_mechanism(market: MarketFile, cluster: Cluster, bids: tuple[Bid, ...]) -> Admission:
    """The market's mechanism, compiled: its first decision shall not take half a minute."""
    tasks = tuple(bid.task for bid in bids)
    warm_up(Instance(cluster, tasks), lambda: _build_mechanism(market, cluster, tasks))
    return _build_mechanism(market, cluster, tasks)


def _build_mechanism(market: MarketFile, cluster: Cluster, tasks: tuple[Task, ...]) -> Admission:
    name, settings = auction_settings(market)
    try:
        return build(name, cluster, settings, tasks)
    except InputError as error:
        raise error.within("auction") from None


def _data_notes(requests: Iterable[Request]) -> tuple[str, ...]:
    return tuple(f"{request.entry.id}: {note}" for request in requests for note in request.notes)


def _profile_notes(given: dict[str, Profile], base: Base) -> tuple[str, ...]:
    return tuple(
        f"profile {name} was measured with another base ({profile.origin.base_name}): slots may "
        "last longer or shorter than they are sold as"
        for name, profile in given.items()
        if profile.origin.architecture != base.architecture
    )


def _thread_notes(given: dict[str, Profile], threads: int) -> tuple[str, ...]:
    return tuple(
        f"profile {name} was measured with {profile.origin.num_threads} threads, its nodes have "
        f"{threads}: slots may last longer than they are sold as"
        for name, profile in given.items()
        if profile.origin.device == "cpu" and profile.origin.num_threads > threads
    )


def _sold_notes(profiles: dict[str, Profile]) -> tuple[str, ...]:
    return tuple(
        f"node type {name}: {warning}"
        for name, profile in profiles.items()
        for warning in profile.warnings()
    )
