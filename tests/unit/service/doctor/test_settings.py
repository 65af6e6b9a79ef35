"""What settings say and name: read, there, and of use."""

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest

from auctune.run.local_cluster import LocalCluster
from auctune.service.doctor import State, look_up
from auctune.service.doctor.bases import look as look_at_bases
from auctune.service.doctor.profiles import look as look_at_profiles
from auctune.service.doctor.ray_cluster import answering
from auctune.service.doctor.ray_cluster import look as look_at_ray
from auctune.service.doctor.settings import look as look_at_settings
from auctune.service.doctor.vendors import look as look_at_vendors
from auctune.train.tiny_recipe import TINY
from support.examined import found, installation, only, states
from support.market_runs import EXAMPLE


def test_settings_are_right_or_wrong_at_their_place(tmp_path: Path) -> None:
    assert states(found(look_at_settings, installation(tmp_path))) == {State.OK}
    assert states(found(look_at_settings, installation(tmp_path, "port = 1\n"))) == {State.OK}
    for text, place in (("port = 'x'", "port"), ("[[zones]]\nslots = 1", "zones[0].slots")):
        (finding,) = found(look_at_settings, installation(tmp_path, text))
        assert finding.state == State.WRONG
        assert f"auctune.toml: {place}" in finding.said


def test_a_file_that_is_not_there_is_wrong(tmp_path: Path) -> None:
    at = installation(tmp_path, "")
    (tmp_path / "auctune.toml").unlink()
    at = look_up(tmp_path / "auctune.toml", at.data, at.cache, at.url_file, online=False)
    assert "cannot be read" in only(found(look_at_settings, at), State.WRONG).said


def test_a_secret_that_is_missing_is_wrong_and_the_rest_is_examined(tmp_path: Path) -> None:
    vendor = 'name = "far"\nurl = "http://localhost:1"\nsecret_file = "none"'
    at = installation(tmp_path, f"[[zones]]\n[[zones.vendors]]\n{vendor}\n")
    assert "secret_file" in only(found(look_at_settings, at), State.WRONG).said
    assert len(at.zones) == 1


def based(folder: Path, base: str) -> tuple[State, str]:
    at = installation(folder, f"[[zones]]\nbase = {json.dumps(base)}\n")
    (finding,) = found(look_at_bases, at)
    return finding.state, finding.said


def test_bases_are_there_or_built_or_fetched_or_wrong(tmp_path: Path) -> None:
    base = tmp_path / "base"
    base.mkdir()
    assert based(tmp_path, "tiny") == (
        State.OK, "tiny is not built yet: the first start does that, in seconds",
    )  # fmt: skip
    assert based(tmp_path, "someone/model-7B")[0] == State.OK
    assert based(tmp_path, "/no/such/folder") == (
        State.WRONG, "/no/such/folder: there is no such folder",
    )  # fmt: skip
    assert based(tmp_path, str(base)) == (State.WRONG, f"{base} has no config.json")
    (base / "config.json").write_text("{}")
    assert based(tmp_path, str(base)) == (State.WRONG, f"{base} has no weights")
    (base / "model.safetensors").write_bytes(b"x" * 2_000_000)
    assert based(tmp_path, str(base)) == (State.OK, f"{base} is in {base}: 2 MB")


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
    ("device", "versions", "state"),
    [
        ("cpu", {"python": "3.11.7"}, State.OK),
        ("cpu", {"torch": "1.0"}, State.WARN),
        ("cuda", {}, State.WRONG),
    ],
)
def test_a_profile_is_of_this_device_and_these_releases_or_not(
    tmp_path: Path, device: str, versions: dict[str, str], state: State
) -> None:
    profile = json.loads((EXAMPLE / "cpu-core.json").read_bytes())
    profile["origin"] |= {"device": device, "versions": versions}
    (tmp_path / "given.json").write_text(json.dumps(profile))
    text = '[[zones]]\n[zones.node_types.local]\nprofile = "given.json"\n'
    (finding,) = found(look_at_profiles, installation(tmp_path, text))
    assert finding.state == state
    if state != State.OK:
        assert finding.mend.startswith("auctune profile --device cpu --out ")


def test_a_profile_that_leaves_much_unsold_is_warned_of(tmp_path: Path) -> None:
    profile = json.loads((EXAMPLE / "cpu-core.json").read_bytes())
    profile["origin"] |= {"versions": {}}
    (tmp_path / "given.json").write_text(json.dumps(profile | {"margin": 0.61}))
    text = '[[zones]]\n[zones.node_types.local]\nprofile = "given.json"\n'
    (finding,) = found(look_at_profiles, installation(tmp_path, text))
    assert finding.state == State.WARN
    assert "61% of the measured speed is kept back" in finding.said
    # One that was measured at an earlier start is known by its file.
    at = installation(tmp_path, "[[zones]]\n")
    (at.data / "profiles").mkdir(parents=True)
    kept = at.data / "profiles" / "profile-abc.json"
    kept.write_text(json.dumps(profile | {"margin": 0.9}))
    warned = only(found(look_at_profiles, at), State.WARN)
    assert f"{kept}: 90% of the measured speed" in warned.said
    assert str(kept) in warned.mend


def test_no_profile_is_right_as_it_is_measured(tmp_path: Path) -> None:
    (finding,) = found(look_at_profiles, installation(tmp_path))
    assert (finding.state, "measured at the first start" in finding.said) == (State.OK, True)


class Stranger(BaseHTTPRequestHandler):
    """Answers as vendors do to what is not signed."""

    def do_GET(self) -> None:
        self.send_response(401)
        self.end_headers()

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def vendor() -> Iterator[str]:
    """The URL of a vendor that is there."""
    with HTTPServer(("127.0.0.1", 0), Stranger) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


def vendors(url: str, tmp_path: Path) -> str:
    (tmp_path / "secret").write_text("s" * 40)
    return f'[[zones]]\n[[zones.vendors]]\nname = "v"\nurl = "{url}"\nsecret_file = "secret"\n'


def test_vendors_are_asked_only_online_and_answer_or_not(tmp_path: Path, vendor: str) -> None:
    assert states(found(look_at_vendors, installation(tmp_path))) == {State.OK}
    gone = vendors("http://127.0.0.1:9", tmp_path)
    (unasked,) = found(look_at_vendors, installation(tmp_path, gone))
    assert "not asked" in unasked.said
    (silent,) = found(look_at_vendors, installation(tmp_path, gone, online=True))
    assert (silent.state, "does not answer" in silent.said) == (State.WARN, True)
    (there,) = found(
        look_at_vendors, installation(tmp_path, vendors(vendor, tmp_path), online=True)
    )
    assert (there.state, "answers (401)" in there.said) == (State.OK, True)


def test_ray_is_asked_only_where_an_address_names_a_cluster(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    assert states(found(look_at_ray, installation(tmp_path))) == {State.OK}
    monkeypatch.setenv("RAY_ADDRESS", "127.0.0.1:9")
    assert "nothing answers" in only(found(look_at_ray, installation(tmp_path)), State.WRONG).said
    assert answering("ray://somewhere:1").state == State.WARN


@pytest.mark.thorough
def test_what_listens_and_is_no_head_of_ray_is_wrong(vendor: str) -> None:
    assert "is no head" in answering(vendor.removeprefix("http://")).said


@pytest.mark.thorough
def test_the_head_of_a_cluster_that_runs_is_right() -> None:
    with LocalCluster({}):
        import ray

        assert answering(ray.get_runtime_context().gcs_address).state == State.OK
