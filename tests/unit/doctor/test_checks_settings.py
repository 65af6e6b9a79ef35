"""Settings, and the bases and profiles that they name."""

import json
from pathlib import Path

import pytest

from auctune.doctor import Severity, load_installation
from auctune.doctor.checks_settings import check_bases, check_profiles, check_settings
from auctune.train.host import cpu_name
from auctune.train.tiny import TINY
from support.installations import make_installation, only, severities
from support.market_runs import EXAMPLE


def test_settings_are_right_or_wrong_at_their_place(tmp_path: Path) -> None:
    assert severities(check_settings(make_installation(tmp_path))) == {Severity.OK}
    assert severities(check_settings(make_installation(tmp_path, "port = 1\n"))) == {Severity.OK}
    for text, place in (("port = 'x'", "port"), ("[[zones]]\nslots = 1", "zones[0].slots")):
        (finding,) = check_settings(make_installation(tmp_path, text))
        assert finding.severity == Severity.ERROR
        assert f"auctune.toml: {place}" in finding.message


def test_a_file_that_is_not_there_is_wrong(tmp_path: Path) -> None:
    at = make_installation(tmp_path, "")
    (tmp_path / "auctune.toml").unlink()
    at = load_installation(tmp_path / "auctune.toml", at.data, at.cache, at.url_file, online=False)
    assert "cannot be read" in only(check_settings(at), Severity.ERROR).message


def test_each_zone_whose_workers_share_cores_is_warned_of(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("auctune.service.config.zone.usable_cores", lambda: 2.0)
    config = EXAMPLE.parent / "service" / "all-kinds.toml"
    at = load_installation(config, tmp_path, tmp_path, tmp_path / "url", online=False)
    valid, *warnings = check_settings(at)
    assert valid.severity == Severity.OK
    assert severities(warnings) == {Severity.WARN}
    for zone, finding in zip(at.zones, warnings, strict=True):
        assert f"workers of zone {zone.name} have" in finding.message


def test_a_secret_that_is_missing_is_wrong_and_the_rest_is_examined(tmp_path: Path) -> None:
    vendor = 'name = "far"\nurl = "http://localhost:1"\ntoken_file = "none"'
    at = make_installation(tmp_path, f"[[zones]]\n[[zones.vendors]]\n{vendor}\n")
    assert "token_file" in only(check_settings(at), Severity.ERROR).message
    assert len(at.zones) == 1


def based(folder: Path, base: str) -> tuple[Severity, str]:
    at = make_installation(folder, f"[[zones]]\nbase = {json.dumps(base)}\n")
    (finding,) = check_bases(at)
    return finding.severity, finding.message


def test_bases_are_there_or_built_or_fetched_or_wrong(tmp_path: Path) -> None:
    base = tmp_path / "base"
    base.mkdir()
    assert based(tmp_path, "tiny") == (
        Severity.OK, "tiny is not built yet: the first start builds it in seconds",
    )  # fmt: skip
    assert based(tmp_path, "someone/model-7B")[0] == Severity.OK
    assert based(tmp_path, "/no/such/folder") == (
        Severity.ERROR, "/no/such/folder: this folder does not exist",
    )  # fmt: skip
    assert based(tmp_path, str(base)) == (Severity.ERROR, f"{base} has no config.json")
    (base / "config.json").write_text("{}")
    assert based(tmp_path, str(base)) == (Severity.ERROR, f"{base} has no weights")
    (base / "model.safetensors").write_bytes(b"x" * 2_000_000)
    assert based(tmp_path, str(base)) == (Severity.OK, f"{base} is in {base}: 2 MB")


def test_a_tiny_base_that_is_built_is_found_and_one_that_cannot_be_is_wrong(tmp_path: Path) -> None:
    folder = tmp_path / "cache" / TINY.key
    folder.mkdir(parents=True)
    (folder / "config.json").write_text("{}")
    (folder / "model.safetensors").write_bytes(b"x")
    assert based(tmp_path, "tiny")[1].startswith("tiny is in ")
    other = tmp_path / "other"
    other.mkdir()
    (other / "cache").write_text("a file in the place of a folder")
    assert "cannot be written (Not a directory)" in based(other, "tiny")[1]


@pytest.mark.parametrize(
    ("device", "processor", "versions", "state"),
    [
        ("cpu", None, {"python": "3.11.7"}, Severity.OK),
        ("cpu", None, {"torch": "1.0"}, Severity.WARN),
        ("cpu", "Abacus 3000", {}, Severity.WARN),
        ("cuda", None, {}, Severity.ERROR),
    ],
)
def test_a_profile_is_of_this_device_and_these_releases_or_not(
    tmp_path: Path, device: str, processor: str | None, versions: dict[str, str], state: Severity
) -> None:
    profile = json.loads((EXAMPLE / "cpu-core.json").read_bytes())
    name = processor or cpu_name()
    profile["origin"] |= {"device": device, "device_name": name, "versions": versions}
    (tmp_path / "given.json").write_text(json.dumps(profile))
    text = '[[zones]]\n[zones.node_types.local]\nprofile = "given.json"\n'
    (finding,) = check_profiles(make_installation(tmp_path, text))
    assert finding.severity == state
    assert ("another processor (Abacus 3000" in finding.message) is (processor is not None)
    if state != Severity.OK:
        assert finding.fix.startswith("run auctune profile --device cpu --out ")


def test_a_profile_of_other_settings_is_measured_again_with_those_of_the_zone(
    tmp_path: Path,
) -> None:
    profile = json.loads((EXAMPLE / "cpu-core.json").read_bytes())
    profile["origin"] |= {"versions": {}, "device_name": cpu_name()}
    (tmp_path / "given.json").write_text(json.dumps(profile))
    settings = "gradient_checkpointing = 2\n"
    node_type = '[zones.node_types.local]\nprofile = "given.json"\n'
    text = f"[[zones]]\n{settings}{node_type}"
    (finding,) = check_profiles(make_installation(tmp_path, text))
    assert finding.severity == Severity.ERROR
    assert "was measured with gradient_checkpointing = 0" in finding.message
    options = "--gradient-checkpointing 2"
    assert finding.fix.startswith(f"run auctune profile --device cpu {options} --out ")


def test_a_profile_that_leaves_much_unsold_is_warned_of(tmp_path: Path) -> None:
    profile = json.loads((EXAMPLE / "cpu-core.json").read_bytes())
    profile["origin"] |= {"versions": {}, "device_name": cpu_name()}
    (tmp_path / "given.json").write_text(json.dumps(profile | {"margin": 0.61}))
    text = '[[zones]]\n[zones.node_types.local]\nprofile = "given.json"\n'
    (finding,) = check_profiles(make_installation(tmp_path, text))
    assert finding.severity == Severity.WARN
    assert "61% of the measured speed is kept back" in finding.message
    # One that was measured at an earlier start is known by its file.
    at = make_installation(tmp_path, "[[zones]]\n")
    (at.data / "profiles").mkdir(parents=True)
    kept = at.data / "profiles" / "profile-abc.json"
    kept.write_text(json.dumps(profile | {"margin": 0.9}))
    warned = only(check_profiles(at), Severity.WARN)
    assert f"{kept}: 90% of the measured speed" in warned.message
    assert str(kept) in warned.fix


def test_no_profile_is_right_as_it_is_measured(tmp_path: Path) -> None:
    (finding,) = check_profiles(make_installation(tmp_path))
    assert (finding.severity, "the first start measures one" in finding.message) == (
        Severity.OK,
        True,
    )
