"""Checks of auctune.toml and of what it names: settings, bases, profiles."""

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from auctune.doctor.installation import (
    Finding,
    Installation,
    error,
    installed_version,
    ok,
    warn,
    write_error,
)
from auctune.domain import InputError
from auctune.engine.base_place import BaseKind, base_place
from auctune.extras import install_command
from auctune.files.device_profile import Profile, read_profile
from auctune.train.host import cpu_name

if TYPE_CHECKING:
    from auctune.service.config.zone import DeviceRequirement

_PROFILED_PACKAGES = ("torch", "transformers", "peft")


def check_settings(at: Installation) -> Iterator[Finding]:
    """Check auctune.toml as `auctune serve` does before it starts."""
    if at.missing_package is not None:
        finding = warn if at.config is None else error
        yield finding(at.settings_error, f"run {install_command('service')}")
    elif at.settings_error:
        yield error(at.settings_error, f"correct {at.config}")
    elif at.config is None:
        yield ok("no file: defaults, with one zone on this machine")
    else:
        yield ok(f"{at.config} is valid; zones: {', '.join(zone.name for zone in at.zones)}")
    if at.settings is not None and not at.settings_error:
        from auctune.service.config.zone import core_warnings

        for warning in core_warnings(at.zones):
            fix = "configure fewer workers, or set `cores` of zones by what they are to sell"
            yield warn(warning, fix)
        if (release := at.settings.inference.check_vllm(at.zones)) is not None:
            yield ok(f"answers are computed by {release}")


def check_bases(at: Installation) -> Iterator[Finding]:
    """Check that each base exists, can be built, or is a model on the hub; fetch nothing."""
    bases = ((zone.required_base, zone.base_folder) for zone in at.zones)
    for name, folder in dict.fromkeys(bases):
        if name is not None:
            yield _base_finding(name, at.cache, folder)


def _base_finding(name: str, cache: Path, beside: Path) -> Finding:
    place = base_place(name, cache, beside)
    if place.kind == BaseKind.TINY and place.folder is None:
        reason = write_error(cache)
        if reason is not None:
            message = f"{name} cannot be built: {cache} cannot be written ({reason})"
            return error(message, "set XDG_CACHE_HOME to a writable folder")
        return ok(f"{name} is not built yet: the first start builds it in seconds")
    if place.kind == BaseKind.HUB:
        return ok(f"{name} is a model on the hub: the first start downloads it")
    if place.kind == BaseKind.UNKNOWN or place.folder is None:
        fix = "set base in auctune.toml to a folder beside it, or to hub:ORG/NAME"
        return error(f"{name}: this folder does not exist", fix)
    if not (place.folder / "config.json").is_file():
        fix = "set base in auctune.toml to a folder that transformers can load"
        return error(f"{place.folder} has no config.json", fix)
    if not place.num_bytes:
        fix = "set base in auctune.toml to a folder with model.safetensors"
        return error(f"{place.folder} has no weights", fix)
    return ok(f"{name} is in {place.folder}: {place.num_bytes / 1e6:,.0f} MB")


def check_profiles(at: Installation) -> Iterator[Finding]:
    """Check the device profile of each node type: given, measured earlier, or still to measure."""
    measured = sorted((at.data / "profiles").glob("profile-*.json"))
    yield from _measured_profile_findings(measured)
    for place, need in at.devices():
        if need.profile is not None:
            yield _given_profile_finding(Path(need.profile), need, f"{place}.profile")
        elif measured:
            yield ok(f"{place}: no profile is set; {len(measured)} measured at earlier starts")
        else:
            yield ok(f"{place}: no profile is set; the first start measures one")


def _given_profile_finding(path: Path, need: "DeviceRequirement", place: str) -> Finding:
    device = need.device
    fix = f"run auctune profile --device {device}{_options(need)} --out {path}"
    try:
        profile = read_profile(path)
    except InputError as caught:
        return error(str(caught), fix)
    if profile.origin.device != device.partition(":")[0]:
        message = f"{path} was measured on {profile.origin.device}, but {place} is for {device}"
        return error(message, fix)
    try:
        profile.check_settings(str(path), need.gradient_checkpointing, need.num_devices)
    except InputError as caught:
        return error(str(caught), fix)
    other = profile.processor_warning(cpu_name())
    if other is not None:
        return warn(f"{path} {other}", fix)
    changed = ", ".join(_changed_versions(profile))
    if changed:
        return warn(f"{path} was measured with {changed}: slots may take longer than sold", fix)
    for warning in profile.warnings():
        return warn(f"{path}: {warning}", fix)
    return ok(f"{path}: {profile.origin.device_name}, {profile.origin.measured_at}")


def _options(need: "DeviceRequirement") -> str:
    """Return the options of `auctune profile` for what is not as by default."""
    options = {
        "devices": (need.num_devices, 1),
        "gradient-checkpointing": (need.gradient_checkpointing, 0),
    }
    changed = {name: value for name, (value, default) in options.items() if value != default}
    return "".join(f" --{name} {value}" for name, value in changed.items())


def _measured_profile_findings(files: Iterable[Path]) -> Iterator[Finding]:
    for path in files:
        try:
            warnings = read_profile(path).warnings()
        except InputError:
            # Written by another release of auctune, which measures it again.
            continue
        for warning in warnings:
            fix = f"remove {path}, and restart the service on an idle machine: it measures again"
            yield warn(f"{path}: {warning}", fix)


def _changed_versions(profile: Profile) -> Iterator[str]:
    for name in _PROFILED_PACKAGES:
        then, here = profile.origin.versions.get(name), installed_version(name)
        if then is not None and here is not None and then != here:
            yield f"{name} {then} (here {here})"
