"""Profiles of devices: given, kept from an earlier start, or to be measured."""

from collections.abc import Iterable, Iterator, Mapping
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from auctune.device_profile import Profile, read_profile
from auctune.domain import InputError
from auctune.service.doctor.finding import Finding, ok, warn, wrong
from auctune.service.doctor.installation import Installation
from auctune.service.doctor.settings import unread

_RELEASES = ("torch", "transformers", "peft")


def look(at: Installation) -> Iterator[Finding]:
    """Each node type's profile."""
    if at.file is None:
        yield unread("profiles")
        return
    files = sorted((at.data / "profiles").glob("profile-*.json"))
    kept = len(files)
    yield from _unsold(files)
    for place, need in at.devices():
        if need.profile is not None:
            yield _given(Path(need.profile), need.device, f"{place}.profile")
        elif kept:
            yield ok("profiles", f"{place}: none given; {kept} kept from earlier starts")
        else:
            yield ok("profiles", f"{place}: none given; measured at the first start")


def _given(path: Path, device: str, place: str) -> Finding:
    mend = f"auctune profile --device {device} --out {path}"
    try:
        profile = read_profile(path)
    except InputError as error:
        return wrong("profiles", str(error), mend)
    if profile.origin.device != device.partition(":")[0]:
        said = f"{path} was measured on {profile.origin.device}, and {place} is of {device}"
        return wrong("profiles", said, mend)
    other = ", ".join(_other_releases(profile, _installed()))
    if other:
        said = f"{path} was measured with {other}: slots may last longer than they are sold as"
        return warn("profiles", said, mend)
    for warning in profile.warnings():
        return warn("profiles", f"{path}: {warning}", mend)
    return ok("profiles", f"{path}: {profile.origin.device_name}, {profile.origin.measured_at}")


def _unsold(files: Iterable[Path]) -> Iterator[Finding]:
    """Warnings of profiles that were measured at earlier starts."""
    for path in files:
        try:
            warnings = read_profile(path).warnings()
        except InputError:
            # Of another release: it is measured again.
            continue
        for warning in warnings:
            mend = f"remove {path} while nothing else runs, and start: it is measured again"
            yield warn("profiles", f"{path}: {warning}", mend)


def _other_releases(profile: Profile, installed: Mapping[str, str]) -> Iterator[str]:
    for name, release in installed.items():
        then = profile.origin.versions.get(name)
        if then is not None and then != release:
            yield f"{name} {then} (here {release})"


def _installed() -> dict[str, str]:
    found = {}
    for name in _RELEASES:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    return found
