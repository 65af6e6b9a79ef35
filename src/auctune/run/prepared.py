"""Everything that a market run needs before its first slot: read, measured and checked.

Nothing is written here: a market that is wrong anywhere leaves nothing behind.
"""

import queue
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from auctune.domain import Admission, Cluster, InputError
from auctune.registry import build
from auctune.run.executor import NodeError, NodeProcess, NodeSettings
from auctune.run.executor.messages import Message
from auctune.run.market.demand import Appraiser, Bid, make_bids
from auctune.run.market.market_file import MarketFile, Resolve, read_market
from auctune.run.market.supply import make_cluster, threads_per_node
from auctune.run.vendors import RepairVendor, Vendor
from auctune.train.base import Base, load_base
from auctune.train.device_profile import Profile, read_profile
from auctune.train.tiny import tiny_folder

Report = Callable[[str, float], None]
"""Told what is being done, and the share of it done, from 0 to 1."""


@dataclass(frozen=True, slots=True)
class Prepared:
    """A market that can be run.

    Attributes:
        market: the file.
        cluster: the supply.
        profiles: by node type.
        bids: in file order.
        vendors: by name.
        appraiser: sizes data by the base's tokenizer.
        mechanism: a new one, over the empty cluster.
        notes: what an operator should know.
    """

    market: MarketFile
    cluster: Cluster
    profiles: dict[str, Profile]
    bids: tuple[Bid, ...]
    vendors: dict[str, Vendor]
    appraiser: Appraiser
    mechanism: Admission
    notes: tuple[str, ...]


def prepare(
    path: Path,
    resolve: Resolve,
    cache: Path,
    known_profiles: dict[str, Profile],
    report: Report,
    place: str | None = None,
) -> Prepared:
    """Read a market file and all that it names, and measure the nodes that ask for it.

    Args:
        path: the market file.
        resolve: finds the files that it names.
        cache: folder of bases that are built here.
        known_profiles: measured earlier in this run, by node type.
        report: told how far it is.
        place: how errors call the market file; none: by its path.

    Raises:
        InputError: for the first thing that is wrong.
    """
    place = place or str(path)
    market = read_market(path, place)
    vendors: dict[str, Vendor] = {v.name: RepairVendor(v.params()) for v in market.vendors}
    try:
        _check_files(market, resolve)
        given = _read_profiles(market, resolve)
        base = _load_base(market, cache, report)
        report("reading the data sets", 0.0)
        appraiser = Appraiser(base.tokenizer, base.context_tokens, tuple(vendors.values()), resolve)
        requests = appraiser.requests(market.bids)
        profiles = given | known_profiles
        for name in market.node_types:
            if name not in profiles:
                profiles[name] = _measure(market, name, cache, report)
        cluster = make_cluster(market, profiles)
        bids = tuple(make_bids(market, cluster, profiles, requests))
        mechanism = _build_mechanism(market, cluster, bids)
    except InputError as error:
        raise error.within(place) from None
    return Prepared(
        market=market,
        cluster=cluster,
        profiles=profiles,
        bids=bids,
        vendors=vendors,
        appraiser=appraiser,
        mechanism=mechanism,
        notes=_profile_notes(given, base),
    )


def relocate(prepared: Prepared, resolve: Resolve) -> Prepared:
    """The same market with its data read from elsewhere."""

    def moved(bid: Bid) -> Bid:
        entry = bid.request.entry
        validation = None if entry.validation is None else resolve(entry.validation)
        job = entry.job(resolve(entry.data), validation)
        return replace(bid, request=replace(bid.request, job=job))

    return replace(prepared, bids=tuple(map(moved, prepared.bids)))


def named_files(market: MarketFile) -> list[tuple[str, str]]:
    """Every file that a market names: its field, and the path as given."""
    files = [
        (f"node_types.{name}.profile", entry.profile)
        for name, entry in market.node_types.items()
        if entry.profile is not None
    ]
    for index, bid in enumerate(market.bids):
        files.append((f"bids[{index}].data", bid.data))
        if bid.validation is not None:
            files.append((f"bids[{index}].validation", bid.validation))
    return files


def node_settings(
    market: MarketFile, node_type: str, cache: Path, profile: Profile | None = None
) -> NodeSettings:
    """How a node's process is started; the profile has the token budget that suits the device."""
    settings = NodeSettings(
        base=market.base,
        cache=str(cache),
        device=market.node_types[node_type].device,
        dtype=market.dtype,
        mode=market.mode,
        threads=threads_per_node(market),
    )
    if profile is None:
        return settings
    return replace(settings, token_budget=profile.micro_batch_tokens)


def _check_files(market: MarketFile, resolve: Resolve) -> None:
    for field, given in named_files(market):
        if not resolve(given).is_file():
            raise InputError(field, f"there is no file {given!r}", "the path of a file")


def _read_profiles(market: MarketFile, resolve: Resolve) -> dict[str, Profile]:
    profiles = {}
    for name, entry in market.node_types.items():
        if entry.profile is not None:
            try:
                profiles[name] = read_profile(resolve(entry.profile))
            except InputError as error:
                raise error.within(f"node_types.{name}.profile") from None
    return profiles


def _load_base(market: MarketFile, cache: Path, report: Report) -> Base:
    if market.base == "tiny":
        what = "building the tiny base (once on this machine)"
        tiny_folder(cache, progress=lambda share: report(what, share))
    report(f"loading the base {market.base}", 0.0)
    base = load_base(market.base, cache=cache, dtype=market.dtype)
    report(f"loading the base {market.base}", 1.0)
    return base


def _measure(market: MarketFile, name: str, cache: Path, report: Report) -> Profile:
    """Measure a node type in a process like the one that will train."""
    inbox: queue.Queue[tuple[str, Message | None]] = queue.Queue()
    process = NodeProcess(name, node_settings(market, name, cache), inbox)
    try:
        while True:
            _, message = inbox.get()
            if message is None:
                raise NodeError(f"measuring {name} failed: {process.last_words()}")
            if message["kind"] == "ready":
                process.measure("quick")
            elif message["kind"] == "measuring":
                report(f"measuring {name}: {message['what']}", message["share"])
            elif message["kind"] == "failed":
                place = f"node_types.{name}: {message['place']}"
                raise InputError(place, message["found"], message["expected"])
            else:
                return Profile.from_json(message["profile"], f"profile of {name}")
    finally:
        process.stop()


def _build_mechanism(market: MarketFile, cluster: Cluster, bids: tuple[Bid, ...]) -> Admission:
    settings = {key: str(value) for key, value in market.auction.items()}
    name = settings.pop("mechanism", "pdftsp")
    try:
        return build(name, cluster, settings, [bid.task for bid in bids])
    except InputError as error:
        raise error.within("auction") from None


def _profile_notes(given: dict[str, Profile], base: Base) -> tuple[str, ...]:
    return tuple(
        f"profile {name} was measured with another base or on another machine "
        f"({profile.origin.base_name}, {profile.origin.device_name}): slots may last longer or "
        "shorter than they are sold as"
        for name, profile in given.items()
        if profile.origin.base_digest != base.digest
    )
