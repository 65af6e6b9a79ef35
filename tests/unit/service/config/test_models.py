"""auctune.toml: what is wrong is named by its path, and secrets stay where they are."""

from pathlib import Path

import pytest

from auctune.domain import InputError
from auctune.service.accounts.registry import hash_key
from auctune.service.config.auction import AuctionConfig
from auctune.service.config.models import ServiceConfig, read_config
from auctune.service.config.vendors import VendorConfig
from auctune.service.private_files import write_private
from auctune.service.service import BURST_SECONDS

ZONE = '[[zones]]\n[[zones.nodes]]\nid = "a"\ntype = "local"\n'
VENDOR = ZONE + '[[zones.vendors]]\nname = "mender"\nurl = "https://mender.example/auctune"\n'
ON_RAY = '[[zones]]\nexecutor = "ray"\n[zones.ray]\n'
TWO_ON = (
    '[[zones]]\n[[zones.nodes]]\nid = "a"\ntype = "local"\n'
    '[[zones.nodes]]\nid = "b"\ntype = "other"\n[zones.node_types.local]\n'
)
KEYS = '[[users]]\nname = "ada"\n[[keys]]\nuser = "ada"\n'
LONG = "s" * 40


def read(folder: Path, text: str) -> ServiceConfig:
    path = folder / "auctune.toml"
    path.write_text(text)
    return read_config(path)


def test_one_key_leaves_two_thirds_of_a_thousand_requests_a_second_to_others() -> None:
    rate = ServiceConfig().limits.requests_per_second
    assert 3 * rate <= 1000
    assert BURST_SECONDS * rate <= 1000


@pytest.mark.parametrize(
    ("text", "path"),
    [
        ('[[zones.nodes]]\nid = "a"\n', "zones: "),
        ('[[zones]]\n[[zones.nodes]]\nid = "a"\ntype = "b"\n', "zones[0].nodes[0].type"),
        (ZONE + '[[zones.nodes]]\nid = "a"\ntype = "local"\n', "zones[0].nodes[1].id"),
        ("[[zones]]\n[[zones]]\n", "zones[1].name"),
        ("[[zones]]\n[zones.node_types.local]\npower_kw = 0.4\n", "node_types.local.power_kw"),
        (
            "[[zones]]\nenergy_price = 80.0\n[zones.node_types.local]\n"
            "power_kw = 0.4\nenergy_cost = 1.0\n",
            "zones[0].node_types.local.power_kw",
        ),
        (
            '[[zones]]\n[zones.builtin_vendor]\nlanguages = ["xx"]\n',
            "zones[0].builtin_vendor.languages",
        ),
        ("[[zones]]\n[zones.builtin_vendor]\nprice = '-1'\n", "zones[0].builtin_vendor.price"),
        (VENDOR, "zones[0].vendors[0].token_variable or token_file"),
        (VENDOR + 'token_file = "a"\ntoken_variable = "B"\n', "token_variable or token_file"),
        (VENDOR + 'token = "in the clear"\n', "zones[0].vendors[0].token"),
        (VENDOR.replace("https", "http") + 'token_file = "a"\n', "zones[0].vendors[0].url"),
        (VENDOR.replace("mender.", "a:b@mender.") + 'token_file = "a"\n', "vendors[0].url"),
        (
            VENDOR.replace('"mender"', '"builtin"') + 'token_file = "a"\n',
            "zones[0].vendors[0].name",
        ),
        ('public_url = "market.example"\n', "public_url"),
        ('public_url = "http://a.example"\n' + VENDOR + 'token_file = "a"\n', "public_url"),
        ('trusted_proxies = ["10.0.0.0/8", "proxy"]\n', "trusted_proxies[1]"),
        ('trusted_proxies = ["*"]\n', "trusted_proxies[0]"),
        ('[[keys]]\nuser = "ada"\nsha256 = "' + "0" * 64 + '"\n', "keys[0].user"),
        (KEYS, "keys[0].sha256 or secret_variable or secret_file"),
        (KEYS + 'sha256 = "abc"\n', "keys[0].sha256"),
        (KEYS + 'role = "vendor"\nsecret_file = "k"\n', "keys[0].role"),
        ('[[users]]\nname = "ada"\n[[users]]\nname = "ada"\n', "users[1].name"),
        ("slot_seconds = 5\n", "slot_seconds"),
        ('[[zones]]\nexecutor = "mpi"\n', "zones[0].executor"),
        ("[[zones]]\n[zones.ray]\n", "zones[0].ray"),
        (ON_RAY + 'address = "head"\n', "zones[0].ray.address"),
        (ON_RAY + "lease = 3\n", "zones[0].ray.lease"),
        ('[[zones]]\n[[zones.nodes]]\nid = "a"\ntype = "local"\nresource = "b"\n', "resource"),
        (ON_RAY + '[[zones.nodes]]\nid = "a"\ntype = "local"\nresource = "b"\n', "resource"),
        (
            TWO_ON + 'device = "cuda"\n[zones.node_types.other]\ndevice = "cuda:0"\n',
            "nodes[1]: 'b'",
        ),
        (
            TWO_ON + 'device = "cuda:1"\n[zones.node_types.other]\ndevice = "cuda:0"\n'
            '[[zones]]\nkind = "timeshare"\nname = "pool"\ndevice = "cuda:1"\n',
            "zones[1].device: 'cuda:1' is already used by zone default",
        ),
        (
            TWO_ON + 'device = "cuda:1"\n[zones.node_types.other]\ndevice = "cuda"\ndevices = 2\n',
            "nodes[1]: 'b' is on cuda:1",
        ),
        (
            TWO_ON + 'device = "cuda:2"\n[zones.node_types.other]\ndevice = "cuda"\ndevices = 2\n'
            '[[zones]]\nkind = "timeshare"\nname = "pool"\ndevice = "cuda:1"\n',
            "zones[1].device: 'cuda:1' is already used by zone default",
        ),
        (
            '[[zones]]\nmode = "exact"\n[zones.node_types.local]\ndevices = 2\n',
            "zones[0].node_types.local.devices: 2 with mode",
        ),
        (
            ON_RAY + 'address = "head:6379"\n[zones.node_types.local]\ndevice = "cuda:1"\n',
            "zones[0].node_types.local.device",
        ),
    ],
)
def test_what_is_wrong_is_named_by_its_path(tmp_path: Path, text: str, path: str) -> None:
    with pytest.raises(InputError) as caught:
        read(tmp_path, text)
    assert path in str(caught.value)
    assert str(caught.value).startswith(str(tmp_path / "auctune.toml"))
    assert "in the clear" not in str(caught.value)
    assert "a:b" not in str(caught.value)


def only_vendor(file: ServiceConfig) -> VendorConfig:
    (zone,) = file.zones
    assert isinstance(zone, AuctionConfig)
    (vendor,) = zone.vendors
    return vendor


def test_files_lie_where_the_settings_say_from_their_own_folder(tmp_path: Path) -> None:
    text = VENDOR.replace("[[zones]]\n", '[[zones]]\nenergy_price = "prices.csv"\n')
    found = read(tmp_path, text + 'token_file = "mender.token"\n' + KEYS + "secret_file = 'k'\n")
    (zone,), (key,) = found.zones, found.keys
    assert isinstance(zone, AuctionConfig)
    assert zone.energy_price == str(tmp_path / "prices.csv")
    assert zone.vendors[0].token_file == str(tmp_path / "mender.token")
    assert key.secret_file == str(tmp_path / "k")


def test_a_vendors_token_is_read_from_its_file_and_never_shown(tmp_path: Path) -> None:
    vendor = only_vendor(read(tmp_path, VENDOR + 'token_file = "mender.token"\n'))
    with pytest.raises(InputError, match=r"here\.token_file: cannot be read"):
        vendor.params("here")
    write_private(tmp_path / "mender.token", "too-short-to-be-one\n")
    with pytest.raises(InputError, match="here: the token: has 19 characters"):
        vendor.params("here")
    write_private(tmp_path / "mender.token", f"{LONG}\n")
    params = vendor.params("here")
    assert params.token.matches(f"Bearer {LONG}")
    assert LONG not in repr(params)


@pytest.mark.parametrize("mode", [0o644, 0o640, 0o602])
def test_a_file_with_a_token_that_others_may_open_is_refused(tmp_path: Path, mode: int) -> None:
    vendor = only_vendor(read(tmp_path, VENDOR + 'token_file = "mender.token"\n'))
    path = tmp_path / "mender.token"
    write_private(path, f"{LONG}\n")
    path.chmod(mode)
    with pytest.raises(InputError, match=r"here\.token_file: .* is open to other .*chmod 600"):
        vendor.params("here")


def test_a_vendors_token_is_read_from_the_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    vendor = only_vendor(read(tmp_path, VENDOR + 'token_variable = "MENDER"\n'))
    monkeypatch.delenv("MENDER", raising=False)
    with pytest.raises(InputError, match="MENDER"):
        vendor.params("here")
    monkeypatch.setenv("MENDER", LONG)
    assert vendor.params("here").name == "mender"


def test_a_key_is_known_by_its_hash_wherever_it_comes_from(tmp_path: Path) -> None:
    (by_hash,) = read(tmp_path, KEYS + f'sha256 = "{hash_key(LONG)}"\n').keys
    (by_file,) = read(tmp_path, KEYS + 'secret_file = "ada.key"\n').keys
    (tmp_path / "ada.key").write_text(f" {LONG}\n")
    assert by_hash.key("here").hash == by_file.key("here").hash == hash_key(LONG)
    (tmp_path / "ada.key").write_text("guessable")
    with pytest.raises(InputError, match="32 random characters"):
        by_file.key("here")
