"""What a market must know of its base before it can sell: asked of a child, and kept.

The child loads the base (and builds the tiny one first, where it is not there yet) and measures the
device in a quick way. A profile is kept under all that it depends on: the base's architecture,
device, dtype, threads, and versions of libraries. Of a base in a folder, on a CPU, all this is
known again without a child as long as no file of the folder has changed its size or its time.

Of a machine elsewhere a child there is asked each time. If nobody is there, what it said last
holds: a market that was open goes on without the nodes that it has lost.
"""

import hashlib
import json
import queue
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from auctune.atomic_files import write_atomically
from auctune.device_profile import Profile, read_profile, write_profile
from auctune.domain import InputError
from auctune.run.runtime.channel import Message, OnMessage, read_error
from auctune.run.runtime.local import start_node
from auctune.run.runtime.messages import NodeError, NodeSettings, measure_request
from auctune.run.runtime.worker import WorkerHandle
from auctune.train.host import cpu_name, library_versions
from auctune.train.tiny import TINY

_STOP_SECONDS = 5.0

Report = Callable[[str, float], None]
"""Told what is being done, and the share of it done, from 0 to 1."""


StartNode = Callable[[NodeSettings, OnMessage], WorkerHandle]
"""Starts a node's process on a machine of its own."""


@dataclass(frozen=True, slots=True)
class Elsewhere:
    """A machine of its own on which a base is asked about.

    Attributes:
        name: what it is called; what was learned there is kept under that.
        start: starts the process that is asked.
    """

    name: str
    start: StartNode


Alone = Callable[[Report], None]
"""Waits until nothing else is at work on the machine, and tells how far that is."""


def _unheard(what: str, share: float) -> None:
    """A report that nobody hears."""


def at_once(report: Report) -> None:
    """For a machine on which nothing else is at work."""


@dataclass(frozen=True, slots=True)
class BaseFacts:
    """A base on a device.

    Attributes:
        name: as the user named it.
        digest: SHA-256 over its configuration and weights.
        context_tokens: the longest row that it can read; none: no limit.
        profile: of the device with it.
    """

    name: str
    digest: str
    context_tokens: int | None
    profile: Profile


def learn_base(
    settings: NodeSettings,
    kept: Path,
    report: Report = _unheard,
    profile: Profile | None = None,
    alone: Alone = at_once,
    elsewhere: Elsewhere | None = None,
) -> BaseFacts:
    """The facts of a base, on the device and with the threads that nodes will have.

    Args:
        settings: as nodes are started; nothing else should run on the device meanwhile.
        kept: folder of what was learned earlier, made if it is not there.
        report: told how far it is.
        profile: of the device, where it is known; none: measured, once.
        alone: called before anything is measured.
        elsewhere: where nodes are that are not on this machine; none: they are.

    Raises:
        InputError: for an unknown base or device, or a profile of another base.
        NodeError: if the process that measures ends, or memory is too small for any pass.
    """
    kept.mkdir(parents=True, exist_ok=True)
    if profile is not None:
        write_profile(profile, _profile_file(kept, profile.origin.key))
    if elsewhere is not None:
        return _learn_elsewhere(settings, kept, report, profile, alone, elsewhere)
    before = _shortcut(settings, kept)
    known = None if before is None else _recall(settings.base, before, kept)
    if known is not None:
        return known if profile is None else _with(known, profile)
    facts = _ask(settings, kept, report, alone, profile, start_node)
    # The tiny base has a folder only now; another's may have changed meanwhile.
    after = _shortcut(settings, kept)
    is_of_device = facts.profile.origin.device == settings.device
    if after is not None and before in (None, after) and is_of_device:
        _keep(facts, after)
    return facts


def _learn_elsewhere(
    settings: NodeSettings,
    kept: Path,
    report: Report,
    profile: Profile | None,
    alone: Alone,
    elsewhere: Elsewhere,
) -> BaseFacts:
    """What is said there; if nobody is there, what was said last."""
    # Another machine's processor and files may be others by now, which only it can tell.
    record = kept / f"elsewhere-{_digest([elsewhere.name, asdict(settings)])}.json"
    known = _recall(settings.base, record, kept)
    try:
        facts = _ask(settings, kept, report, alone, profile, elsewhere.start, waits=known is None)
    except NodeError as error:
        if known is None:
            raise
        report(f"{elsewhere.name}: as it was last, as {error}", 1.0)
        return known if profile is None else _with(known, profile)
    _keep(facts, record)
    return facts


def _keep(facts: BaseFacts, record: Path) -> None:
    """Put down what `_recall` finds."""
    found = {
        "digest": facts.digest,
        "context_tokens": facts.context_tokens,
        "profile": facts.profile.origin.key,
    }
    write_atomically(record, json.dumps(found).encode())


def _digest(parts: object) -> str:
    text = json.dumps(parts, sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def _shortcut(settings: NodeSettings, kept: Path) -> Path | None:
    """The file of what is known of a base as its folder is now; none if a child has to be asked.

    The name of a GPU cannot be had without torch, nor the state of a model on the hub.
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
        "device_name": cpu_name(),
        "versions": library_versions(),
    }
    return kept / f"base-{_digest(parts)}.json"


def _recall(name: str, shortcut: Path, kept: Path) -> BaseFacts | None:
    """What was kept of a base; none if nothing was, or it is damaged."""
    try:
        record = json.loads(shortcut.read_bytes())
        digest, context_tokens = str(record["digest"]), record["context_tokens"]
        profile = read_profile(_profile_file(kept, record["profile"]))
    except (OSError, ValueError, LookupError, TypeError):
        return None
    return BaseFacts(name, digest, context_tokens, profile)


def _profile_file(kept: Path, origin: str) -> Path:
    return kept / f"profile-{origin}.json"


def _with(facts: BaseFacts, profile: Profile) -> BaseFacts:
    """The facts with a profile that was given.

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


def _ask(
    settings: NodeSettings,
    kept: Path,
    report: Report,
    alone: Alone,
    given: Profile | None,
    start: StartNode,
    *,
    waits: bool = True,
) -> BaseFacts:
    """What a child says of the base, and measures unless it was measured before.

    Raises:
        NodeError: if it ends; unless it `waits`, also if no machine is there for it.
    """
    inbox: queue.SimpleQueue[Message | None] = queue.SimpleQueue()
    report(f"loading the base {settings.base}", 0.0)
    process = start(settings, inbox.put)
    try:
        ready = _await("ready", inbox, process, report, waits=waits)
        file = _profile_file(kept, ready["origin"])
        if given is not None:
            _check_profile(given, settings.base, ready["architecture"])
            return BaseFacts(settings.base, ready["base_digest"], ready["context_tokens"], given)
        try:
            profile = read_profile(file)
        except InputError:
            # Not measured yet, or by another release.
            alone(report)
            process.send(measure_request("quick"))
            text = _await("measured", inbox, process, report)["profile"]
            profile = Profile.from_json(text, "profile")
            write_profile(profile, file)
    finally:
        process.stop(_STOP_SECONDS)
    return BaseFacts(settings.base, ready["base_digest"], ready["context_tokens"], profile)


def _await(
    kind: str,
    inbox: "queue.SimpleQueue[Message | None]",
    process: WorkerHandle,
    report: Report,
    *,
    waits: bool = True,
) -> Message:
    while True:
        message = inbox.get()
        if message is None:
            raise NodeError(f"the base cannot be measured: {process.exit_reason()}")
        if message["kind"] == kind:
            return message
        if message["kind"] == "failed":
            raise read_error(message, NodeError)
        if message["kind"] == "preparing":
            report(message["what"], message["share"])
        if message["kind"] == "measuring":
            report(f"measuring the device: {message['what']}", message["share"])
        if message["kind"] == "missing":
            if not waits:
                raise NodeError(message["what"])
            report(f"waiting: {message['what']}", 0.0)
