"""What is wrong with settings shows before anything is done."""

import sys
from pathlib import Path

import pytest

from auctune.domain import InputError
from auctune.service.config.auction import AuctionConfig
from auctune.service.config.models import read_config
from auctune.service.private_files import write_private
from auctune.service.zones.kinds import check_bases, check_service

VENDOR = '[[zones.vendors]]\nname = "far"\nurl = "http://localhost:1"\n'


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ('[zones.auction]\npricing = "foo"', "zones[0].auction.pricing"),
        ("[zones.auction]\ncompute_low = -1", "zones[0].auction.compute_low"),
        ('[zones.auction]\nmechanism = "lottery"', "zones[0].auction.mechanism"),
        ("[zones.auction]\nspeed = 3", "zones[0].auction.speed"),
        (f'{VENDOR}token_file = "no-such-file"', "zones[0].vendors[0]"),
        (f'{VENDOR}token_variable = "AUCTUNE_NO_SUCH"', "zones[0].vendors[0]"),
        ('energy_price = "no-such.csv"', "zones[0].energy_price: {folder}/no-such.csv"),
        (
            '[zones.node_types.local]\nprofile = "no-such.json"',
            "zones[0].node_types.local.profile: {folder}/no-such.json",
        ),
        ('kind = "spot"\nmarket = "no-such.csv"', "zones[0].market: {folder}/no-such.csv"),
        ('kind = "timeshare"\nprofile = "no-such.json"', "zones[0].profile: {folder}/no-such.json"),
    ],
)
def test_what_a_file_names_is_looked_up(tmp_path: Path, text: str, place: str) -> None:
    path = tmp_path / "auctune.toml"
    path.write_text(f"[[zones]]\n{text}\n")
    with pytest.raises(InputError) as caught:
        check_service(read_config(path))
    assert place.format(folder=tmp_path) in caught.value.place


def test_a_file_passes_while_all_that_it_names_is_there(tmp_path: Path) -> None:
    path, token = tmp_path / "auctune.toml", tmp_path / "token"
    write_private(token, "a-token-of-more-than-thirty-two-characters\n")
    path.write_text(f'[[zones]]\n{VENDOR}token_file = "token"\n')
    file = read_config(path)
    check_service(file)
    token.unlink()
    with pytest.raises(InputError, match="token"):
        check_service(file)


def test_a_cluster_without_ray_is_one_error_that_says_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "auctune.toml"
    path.write_text('[[zones]]\nexecutor = "ray"\n')
    # As where it was never installed.
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(InputError) as caught:
        check_service(read_config(path))
    assert str(caught.value).startswith("zones[0].executor")
    assert "pip install 'ray>=" in str(caught.value)


@pytest.mark.parametrize("name", ["auctune.toml", "all-kinds.toml"])
def test_the_examples_are_what_a_start_takes(name: str) -> None:
    file = read_config(Path("examples/service") / name)
    check_service(file)
    kinds = [zone.kind for zone in file.zones]
    assert kinds[0] == "auction"
    assert len(set(kinds)) == len(kinds)


def test_a_base_is_a_folder_beside_the_file_and_a_mistyped_path_is_wrong(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "models" / "llama").mkdir(parents=True)
    path = tmp_path / "auctune.toml"
    path.write_text('[[zones]]\nbase = "models/llama"\n')
    monkeypatch.chdir("/")
    file = read_config(path)
    check_bases(file)
    (zone,) = file.zones
    assert isinstance(zone, AuctionConfig)
    # Owners name the model as it was typed, processes load the folder.
    assert (zone.base, zone.base_source) == ("models/llama", str(tmp_path / "models" / "llama"))
    for wrong in ("models/lama", "llama", "/models/llama"):
        path.write_text(f'[[zones]]\nbase = "{wrong}"\n')
        with pytest.raises(InputError, match=r"zones\[0\]\.base: .* no such folder"):
            check_bases(read_config(path))
