import shutil
from pathlib import Path

import pytest

from auctune.domain import InputError
from auctune.engine.base_place import base_cache
from auctune.engine.market.market_file import read_market
from auctune.registry.mechanisms import build
from auctune.standalone.preparation import Prepared, input_files
from auctune.train.tiny import tiny_folder
from support.market_runs import prepare_market, with_change, write_market
from support.tiny_architecture import tiny_architecture

pytest_plugins = ["support.market_fixtures", "support.tiny_bases"]


def _other_notes(prepared: Prepared) -> list[str]:
    """Notes but that of the one bid with validation data, on what these cost."""
    return [note for note in prepared.notes if not note.startswith("sums: work: ")]


def test_a_base_is_looked_for_beside_the_market_file_and_known_by_its_absolute_path(
    in_cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    market = write_market(tmp_path / "market", with_change(("base",), "models/mine"))
    shutil.copytree(tiny_folder(base_cache()), tmp_path / "market" / "models" / "mine")
    monkeypatch.chdir(tmp_path)

    prepared = prepare_market(Path("market") / market.name)

    assert prepared.base == str(tmp_path / "market" / "models" / "mine")
    named = prepare_market(write_market(tmp_path / "other"))
    assert (named.base, named.base_digest) == ("tiny", prepared.base_digest)
    assert _other_notes(prepared) == []


def test_work_is_counted_in_samples_of_tokens_over_all_epochs(
    in_cache: Path, tmp_path: Path
) -> None:
    prepared = prepare_market(write_market(tmp_path / "market"))
    (bid, unvalidated, *_, repaired) = prepared.bids
    size, validation = bid.request.size, bid.request.size.validation

    assert size.rows == 40
    assert validation is not None
    assert validation.rows == 8
    # Rows that are only evaluated cost half as much.
    epoch_tokens = 40 * size.mean_tokens + 0.5 * 8 * validation.mean_tokens
    assert bid.task.work == pytest.approx(3 * epoch_tokens / 32)
    (note,) = prepared.notes
    assert note == (
        f"sums: work: training {40 * size.mean_tokens:.0f} tokens x 3,"
        f" validation {8 * validation.mean_tokens:.0f} tokens x 3;"
        " a validation token counts as 0.5 training tokens"
    )
    size = unvalidated.request.size
    assert (size.rows, size.validation) == (48, None)
    assert unvalidated.task.work == pytest.approx(3 * 48 * size.mean_tokens / 32)
    assert [quote.vendor for quote in repaired.task.quotes] == ["house"]
    # Not yet repaired: every line counts.
    assert repaired.request.size.rows == 24


def test_all_files_that_a_market_names_are_its_inputs_and_itself(tmp_path: Path) -> None:
    market = write_market(tmp_path / "market")

    base, files = input_files(read_market(market), market)

    names = {"sums.jsonl", "mood.jsonl", "codes.jsonl", "check.jsonl", "slow.json"}
    assert base == "tiny"
    assert files == {"": market} | {name: market.parent / name for name in names}


def test_a_replay_makes_the_mechanism_of_the_papers_prices_without_the_bids(
    in_cache: Path, tmp_path: Path
) -> None:
    market = write_market(tmp_path / "market", with_change(("auction",), {"pricing": "paper"}))

    prepared = prepare_market(market)

    again = build("pdftsp", prepared.cluster, prepared.settings)
    for bid in sorted(prepared.bids, key=lambda bid: bid.task.arrival):
        task = bid.task
        assert again.offer(task, task.arrival) == prepared.mechanism.offer(task, task.arrival)
    assert prepared.settings.keys() == {"pricing", "alpha", "beta"}


def test_a_profile_of_another_base_is_noted(in_cache: Path, tmp_path: Path) -> None:
    market = write_market(tmp_path / "market")
    profile = tmp_path / "market" / "slow.json"
    text = profile.read_text()
    profile.write_text(text.replace(tiny_architecture(), "0" * 64))

    (note,) = _other_notes(prepare_market(market))
    assert "profile slow was measured with another base" in note


def test_rows_that_lose_their_ends_are_noted_and_many_are_refused_unless_their_owner_insists(
    in_cache: Path, tmp_path: Path
) -> None:
    market = write_market(tmp_path / "market")
    data = tmp_path / "market" / "sums.jsonl"
    long = '{"prompt": "Add.", "completion": "' + " 1234567" * 400 + '"}\n'
    data.write_text(data.read_text() + long)
    (note,) = _other_notes(prepare_market(market))
    assert note.startswith(
        "sums: rows longer than the base's context of 512 are truncated: 1 of 41; "
    )
    assert note.endswith("and the base reads at most 512: split long rows")

    data.write_text(data.read_text() + long * 9)
    found = (
        r"bids\[0\] \(sums\): data sums.jsonl: rows longer than .* would be truncated: 10 of 50; "
    )
    with pytest.raises(InputError, match=found):
        prepare_market(market)
    insisting = write_market(tmp_path / "other", with_change(("bids", 0, "truncate"), True))
    shutil.copy(data, tmp_path / "other" / "sums.jsonl")
    (note,) = _other_notes(prepare_market(insisting))
    assert "are truncated: 10 of 50" in note


def test_a_device_that_is_not_there_shows_before_anything_is_copied(tmp_path: Path) -> None:
    types = {"slow": {"profile": "slow.json"}, "gpu": {"profile": "slow.json", "device": "cuda:99"}}
    market = write_market(tmp_path / "market", with_change(("node_types",), types))

    with pytest.raises(InputError, match=r"market.toml: node_types.gpu: device: 'cuda:99'"):
        input_files(read_market(market), market)
