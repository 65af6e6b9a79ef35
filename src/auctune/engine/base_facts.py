"""Facts about a base that a market needs before it can sell: measured by a worker, and cached.

The worker loads the base (and builds the tiny one first, if it is missing) and measures the device.
A profile is cached under all that it depends on: the base's architecture,
device, dtype, threads, and versions of libraries. For a base in a folder, on a CPU, no worker is
needed as long as no file of the folder has changed its size or its time.

On another machine a worker runs each time. If the machine does not answer, its last facts are used:
a market that was open continues without the nodes that it has lost.
"""

import hashlib
import json
import queue
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from types import TracebackType
from typing import Self

from auctune.domain import InputError
from auctune.engine.messages.base import Missing, Preparing
from auctune.engine.messages.node import (
    Measure,
    Measured,
    Measuring,
    NodeReady,
    NodeReply,
    RequestFailed,
)
from auctune.engine.runtime.channel import OnMessage
from auctune.engine.runtime.local import start_node
from auctune.engine.runtime.nodes import NodeError, NodeSettings
from auctune.engine.runtime.worker import WorkerHandle
from auctune.files.atomic import write_atomically
from auctune.files.device_profile import Profile, read_profile, write_profile
from auctune.train.host import cpu_name, library_versions
from auctune.train.tiny import TINY

_STOP_SECONDS = 5.0

Report = Callable[[str, float], None]
"""Called with the step in progress, and the share of it that is done, from 0 to 1."""


StartNode = Callable[[NodeSettings, OnMessage], WorkerHandle]
"""Starts a node's process on a machine of its own."""


@dataclass(frozen=True, slots=True)
class Elsewhere:
    """Another machine, on which a base is measured.

    Attributes:
        name: key of its facts in the cache.
        start: starts the worker there.
    """

    name: str
    start: StartNode


Alone = Callable[[Report], None]
"""Waits until the machine is idle, and reports progress."""


def _ignore_report(what: str, share: float) -> None:
    pass


def at_once(report: Report) -> None:
    """Do not wait: the machine is idle."""


@dataclass(frozen=True, slots=True)
class BaseFacts:
    """A base on a device.

    Attributes:
        name: as the user named it.
        digest: SHA-256 over its configuration and weights.
        context_tokens: length of the longest row that it can read; `None`: no limit.
        profile: of the device with it.
    """

    name: str
    digest: str
    context_tokens: int | None
    profile: Profile


def processor_warning(profile: Profile) -> str | None:
    """Return a warning if a profile is of another CPU than that of this machine."""
    return profile.processor_warning(cpu_name())


def learn_base(
    settings: NodeSettings,
    kept: Path,
    report: Report = _ignore_report,
    profile: Profile | None = None,
    alone: Alone = at_once,
    elsewhere: Elsewhere | None = None,
) -> BaseFacts:
    """Return the facts of a base, on the device and with the threads that nodes will have.

    Args:
        settings: of the nodes; nothing else should run on the device meanwhile.
        kept: folder of the cache, made if it is not there.
        report: called with the progress.
        profile: of the device; `None`: measured, once.
        alone: called before anything is measured.
        elsewhere: machine of the nodes; `None`: this one.

    Raises:
        InputError: for an unknown base or device, or a profile of another base.
        NodeError: if the process that measures ends, or memory is too small for any pass.
    """
    kept.mkdir(parents=True, exist_ok=True)
    if profile is not None:
        write_profile(profile, _profile_file(kept, profile.origin.key))
    if elsewhere is not None:
        return _learn_elsewhere(settings, kept, report, profile, alone, elsewhere)
    before = _cache_file(settings, kept)
    known = None if before is None else _read(settings.base, before, kept)
    if known is not None:
        return known if profile is None else _with_profile(known, profile)
    facts = _learn(settings, kept, report, alone, profile, start_node)
    # The tiny base has a folder only now; another's may have changed meanwhile.
    after = _cache_file(settings, kept)
    is_of_device = facts.profile.origin.device == settings.device
    if after is not None and before in (None, after) and is_of_device:
        _store(facts, after)
    return facts


def _learn_elsewhere(
    settings: NodeSettings,
    kept: Path,
    report: Report,
    profile: Profile | None,
    alone: Alone,
    elsewhere: Elsewhere,
) -> BaseFacts:
    """Return the facts as measured there; if the machine does not answer, the last ones."""
    # Its processor and files may have changed, which only a worker there can find out.
    record = kept / f"elsewhere-{_digest([elsewhere.name, asdict(settings)])}.json"
    known = _read(settings.base, record, kept)
    try:
        facts = _learn(settings, kept, report, alone, profile, elsewhere.start, waits=known is None)
    except NodeError as error:
        if known is None:
            raise
        report(f"{elsewhere.name}: as it was last, as {error}", 1.0)
        return known if profile is None else _with_profile(known, profile)
    _store(facts, record)
    return facts


def _store(facts: BaseFacts, record: Path) -> None:
    """Write facts to the cache."""
    found = {
        "digest": facts.digest,
        "context_tokens": facts.context_tokens,
        "profile": facts.profile.origin.key,
    }
    write_atomically(record, json.dumps(found).encode())


def _digest(parts: object) -> str:
    text = json.dumps(parts, sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def _cache_file(settings: NodeSettings, kept: Path) -> Path | None:
    """Return the cache file of a base in the present state of its folder; `None` if only a worker
    can find out the state: that of a GPU, which needs torch, or of a model on the hub.
    """
    folder = Path(settings.cache) / TINY.key if settings.base == "tiny" else Path(settings.base)
    if settings.device != "cpu" or not folder.is_dir():
        return None
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    states = [(str(path.resolve()), path.stat()) for path in files]
    parts = {
        "files": [(name, state.st_size, state.st_mtime_ns) for name, state in states],
        "dtype": settings.dtype,
        "threads": settings.threads,
        "num_devices": settings.num_devices,
        "backend": settings.backend,
        "gradient_checkpointing": settings.gradient_checkpointing,
        "device_name": cpu_name(),
        "versions": library_versions(),
    }
    return kept / f"base-{_digest(parts)}.json"


def _read(name: str, shortcut: Path, kept: Path) -> BaseFacts | None:
    """Return cached facts of a base, or `None` if there are none, or they are damaged."""
    try:
        record = json.loads(shortcut.read_bytes())
        digest, context_tokens = str(record["digest"]), record["context_tokens"]
        profile = read_profile(_profile_file(kept, record["profile"]))
    except (OSError, ValueError, LookupError, TypeError):
        return None
    return BaseFacts(name, digest, context_tokens, profile)


def _profile_file(kept: Path, origin: str) -> Path:
    return kept / f"profile-{origin}.json"


def _with_profile(facts: BaseFacts, profile: Profile) -> BaseFacts:
    """Return facts with another profile.

    Raises:
        InputError: if it is another base's.
    """
    _check_profile(profile, facts.name, facts.profile.origin.architecture)
    return replace(facts, profile=profile)


def _check_profile(profile: Profile, base: str, architecture: str) -> None:
    """Raise InputError if a profile is of a base of another architecture."""
    if profile.origin.architecture != architecture:
        found = f"was measured with another base ({profile.origin.base_name})"
        raise InputError("profile", found, f"one of {base}")


def _learn(
    settings: NodeSettings,
    kept: Path,
    report: Report,
    alone: Alone,
    given: Profile | None,
    start: StartNode,
    *,
    waits: bool = True,
) -> BaseFacts:
    """Return the facts that a worker reports; it measures the device unless that was done before.

    Raises:
        NodeError: if the worker ends; unless it `waits`, also if there is no machine for it.
    """
    inbox: queue.SimpleQueue[NodeReply | None] = queue.SimpleQueue()
    # A path of this machine is nothing for clients, who read what a service waits for.
    folder = Path(settings.base)
    report(f"loading the base {folder.name if folder.is_absolute() else settings.base}", 0.0)
    process = start(settings, inbox.put)
    try:
        ready = _await_result(inbox, process, report, waits=waits)
        assert isinstance(ready, NodeReady)
        file = _profile_file(kept, ready.origin)
        if given is not None:
            _check_profile(given, settings.base, ready.architecture)
            return BaseFacts(settings.base, ready.base_digest, ready.context_tokens, given)
        try:
            profile = read_profile(file)
        except InputError:
            # Not measured yet, or by another release.
            alone(report)
            process.send(Measure())
            measured = _await_result(inbox, process, report)
            assert isinstance(measured, Measured)
            profile = Profile.from_json(measured.profile, "profile")
            write_profile(profile, file)
    finally:
        process.stop(_STOP_SECONDS)
    return BaseFacts(settings.base, ready.base_digest, ready.context_tokens, profile)


def _await_result(
    inbox: "queue.SimpleQueue[NodeReply | None]",
    process: WorkerHandle,
    report: Report,
    *,
    waits: bool = True,
) -> NodeReady | Measured:
    while True:
        match message := inbox.get():
            case None:
                raise NodeError(f"the base cannot be measured: {process.exit_reason()}")
            case NodeReady() | Measured():
                return message
            case RequestFailed(error=error):
                raise error.to_error(NodeError)
            case Preparing():
                report(message.what, message.share)
            case Measuring():
                report(f"measuring the device: {message.what}", message.share)
            case Missing() if not waits:
                raise NodeError(message.what)
            case Missing():
                report(f"waiting: {message.what}", 0.0)


class StartupTask:
    """Work that runs while bases are measured, and ends with its context; here, none."""

    def wait(self, report: Report) -> None:
        """Block until the work is done, and report its progress."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        pass
