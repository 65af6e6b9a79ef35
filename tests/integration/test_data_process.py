"""The real data process over the tiny base's tokenizer."""

import json
import tracemalloc
from collections import Counter
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path

import pytest

from auctune.datasets import read_dataset
from auctune.domain import InputError
from auctune.domain.dataset import RowKind
from auctune.engine.data import DataClient
from auctune.engine.data.client import MEDIUM_BYTES
from auctune.engine.data.examiner import Examiner
from auctune.engine.vendors import RepairParams
from auctune.engine.workers.data import limited_memory
from auctune.train import stored_tokens
from auctune.train.rows import tokenize
from auctune.train.stored_tokens import is_stored, tokens_folder
from auctune.train.tokenizer import load_tokenizer
from support.waits import WAIT_SECONDS

pytest_plugins = ["support.tiny_bases"]
pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def client(tiny_cache: Path) -> Iterator[DataClient]:
    client = DataClient(tiny_cache)
    yield client
    client.close()


def write_rows(path: Path, prompts: list[str]) -> Path:
    rows = [{"prompt": prompt, "completion": " yes"} for prompt in prompts]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def test_a_data_set_is_sized_as_the_trainer_will_see_it(
    client: DataClient, tiny_cache: Path, tmp_path: Path
) -> None:
    path = write_rows(tmp_path / "d.jsonl", ["short", "no end " * 200, "ask " * 9])
    tokenizer, context = load_tokenizer("tiny", cache=tiny_cache)
    assert client.prepare("tiny").result(WAIT_SECONDS) == context == 512
    for max_length in (16, 10_000):
        facts = client.size("tiny", path, "training_file", max_length).result(WAIT_SECONDS)
        data = tokenize(read_dataset(path), tokenizer, min(max_length, 512))
        assert facts.kind is RowKind.COMPLETION
        assert facts.size.rows == facts.rows == len(data)
        assert facts.mean_tokens == data.mean_tokens
        assert (facts.num_truncated, facts.longest) == (data.num_truncated, data.longest)
        assert facts.dropped == Counter(data.dropped.values())
    assert facts.dropped == {"prompt_too_long": 1}


def test_the_tokens_of_a_large_file_are_stored_and_again_when_they_are_torn(
    client: DataClient, tiny_cache: Path, tmp_path: Path
) -> None:
    tokenizer, _ = load_tokenizer("tiny", cache=tiny_cache)
    small = write_rows(tmp_path / "small.jsonl", ["ask"])
    large = write_rows(tmp_path / "large.jsonl", ["ask"] * 9000)
    assert large.stat().st_size > MEDIUM_BYTES
    for path, num_rows in ((small, 1), (large, 9000)):
        asked = client.size("tiny", path, "training_file", 64, store=True)
        assert asked.result(WAIT_SECONDS).rows == num_rows
    assert not tokens_folder(small).exists()
    assert is_stored(large, tokenizer, 64)
    (file,) = tokens_folder(large).iterdir()
    file.write_bytes(file.read_bytes()[:-1])
    assert not is_stored(large, tokenizer, 64)
    for path in (small, large):
        client.store("tiny", path, "training_file", 64).result(WAIT_SECONDS)
    assert is_stored(large, tokenizer, 64)
    assert not tokens_folder(small).exists()


def test_bad_data_and_bad_bases_are_told_with_their_place(
    client: DataClient, tmp_path: Path
) -> None:
    bad = tmp_path / "bad.jsonl"
    bad.write_text('{"text": "fine"}\n{"text": 3}\n')
    future = client.size("tiny", bad, "training_file", 64)
    other = client.prepare("no/where")
    with pytest.raises(InputError) as caught:
        future.result(WAIT_SECONDS)
    assert caught.value.place == "training_file: line 2: text"
    # A hub's name, which nobody asked to be fetched.
    with pytest.raises(InputError, match="base 'no/where'"):
        other.result(WAIT_SECONDS)


def test_raw_data_are_appraised_and_repaired_as_the_vendor_does_it(
    client: DataClient, tmp_path: Path
) -> None:
    raw = tmp_path / "raw.jsonl"
    raw.write_text(
        '{"prompt": "What is a bid?", "completion": " An offer to pay."}\n'
        '{"instruction": "Name it", "output": "second price",}\n'
        "what is this\n"
    )
    house = RepairParams("house", Decimal("0.5"), Decimal("0.1"), delay=2)
    picky = RepairParams("picky", min_characters=5000)
    appraisal = client.appraise("tiny", raw, "file", 64, [picky, house]).result(WAIT_SECONDS)
    assert appraisal.size.rows == 3
    (offer,) = appraisal.offers
    assert (offer.quote.vendor, offer.quote.price, offer.quote.delay) == (
        "house", Decimal("0.8000"), 2
    )  # fmt: skip
    assert (offer.facts.rows, offer.facts.kind) == (2, RowKind.CHAT)
    with pytest.raises(InputError, match="no usable row: too short"):
        client.appraise("tiny", raw, "file", 64, [picky]).result(WAIT_SECONDS)

    target = tmp_path / "clean.jsonl"
    (tmp_path / ".clean.jsonl.abc").write_text("of one that was killed")
    report = client.repair(raw, target, house).result(WAIT_SECONDS)
    assert (report.vendor, report.rows_in, report.rows_out) == ("house", 3, 2)
    assert len(read_dataset(target)) == 2
    assert {path.name for path in tmp_path.iterdir()} == {"raw.jsonl", "clean.jsonl"}
    archived = client.archive(tmp_path, tmp_path.parent / "x.zip", "all").result(WAIT_SECONDS)
    assert (tmp_path.parent / "x.zip").stat().st_size == archived.bytes


def test_rows_that_a_tokenizer_cannot_take_are_their_owners_error_and_the_process_goes_on(
    client: DataClient, tmp_path: Path
) -> None:
    bad = tmp_path / "bad.jsonl"
    bad.write_text('{"text": "a\\ud800b"}\n')
    good = write_rows(tmp_path / "good.jsonl", ["short"])
    pid = client.pid
    with pytest.raises(InputError, match=r"^training_file"):
        client.size("tiny", bad, "training_file", 64).result(WAIT_SECONDS)
    assert client.size("tiny", good, "training_file", 64).result(WAIT_SECONDS).rows == 1
    assert client.pid == pid


def test_the_memory_of_a_request_is_limited_and_that_of_the_next_one_is_not() -> None:
    with pytest.raises(MemoryError), limited_memory(64 * 2**20):
        bytearray(256 * 2**20)
    assert len(bytearray(256 * 2**20)) == 256 * 2**20


def test_the_memory_that_an_examination_takes_does_not_grow_with_the_file(
    tiny_cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    examiner = Examiner(*load_tokenizer("tiny", cache=tiny_cache))
    peaks = []
    monkeypatch.setattr(stored_tokens, "_BLOCK_TOKENS", 2**12)
    for count in (1000, 4000):
        path = tmp_path / f"{count}.jsonl"
        path.write_text('{"text": "a short row of text"}\n' * count)
        tracemalloc.start()
        assert examiner.facts(path, "file", 64, store=True).rows == count
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    assert peaks[1] < 1.2 * peaks[0]


def test_a_row_of_more_characters_than_allowed_is_never_tokenized(
    tiny_cache: Path, tmp_path: Path
) -> None:
    tokenizer, context = load_tokenizer("tiny", cache=tiny_cache)
    path = write_rows(tmp_path / "d.jsonl", ["short", "a" * 400, "short"])
    assert Examiner(tokenizer, context, 450).facts(path, "file", 512).rows == 3
    examiner = Examiner(tokenizer, context, 400)
    with pytest.raises(InputError, match="file: line 2: more than 400 characters"):
        examiner.facts(path, "file", 512)
    # Where a vendor is to repair it, the row counts as what it could come to at most.
    counted = examiner.raw_size(path, "file", 512).mean_tokens
    assert counted > Examiner(tokenizer, context).raw_size(path, "file", 512).mean_tokens
