import fcntl
import os
import re
import shutil
from itertools import islice
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from transformers import AutoModelForCausalLM, AutoTokenizer

from auctune.domain.dataset import DataSet, RowKind
from auctune.train.base import Base
from auctune.train.rows import tokenize
from auctune.train.tiny import TinyRecipe, tiny_folder
from auctune.train.tiny_text import chats, texts
from support.one_fork_server import in_another_process

pytest_plugins = ["support.tiny_bases"]

SMALL = TinyRecipe(layers=1, heads=2, width=16, context=256, vocabulary=300, num_texts=50, steps=4)


def contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def mean_loss(base: Base, dataset: DataSet) -> float:
    losses: list[Tensor] = []
    with torch.no_grad():
        for row in tokenize(dataset, base.tokenizer, 128).rows:
            logits = base.model(input_ids=torch.from_numpy(row.input_ids)[None]).logits[0, :-1]
            labels = torch.from_numpy(row.labels)[1:]
            losses.append(torch.nn.functional.cross_entropy(logits, labels, ignore_index=-100))
    return torch.stack(losses).mean().item()


def test_a_recipe_is_built_once_and_the_same_in_any_process(tmp_path: Path) -> None:
    shares: list[float] = []
    random = torch.random.get_rng_state()
    one = tiny_folder(tmp_path / "one", SMALL, shares.append)
    assert shares == [0.25, 0.5, 0.75, 1.0]
    assert torch.equal(torch.random.get_rng_state(), random)
    assert tiny_folder(tmp_path / "one", SMALL, shares.append) == one
    assert len(shares) == 4

    two = in_another_process(tiny_folder, tmp_path / "two", SMALL)
    assert contents(two) == contents(one)


def test_what_a_killed_build_left_is_removed_unless_another_may_be_building(
    tmp_path: Path,
) -> None:
    left = tmp_path / f".tmp-{SMALL.key}-00c0ffee"
    left.mkdir()
    building = os.open(tmp_path, os.O_RDONLY)
    fcntl.flock(building, fcntl.LOCK_SH)
    place = tiny_folder(tmp_path, SMALL)
    assert left.is_dir()
    os.close(building)
    shutil.rmtree(place)
    tiny_folder(tmp_path, SMALL)
    assert [path.name for path in tmp_path.iterdir()] == [SMALL.key]


def test_another_recipe_has_another_place() -> None:
    recipes = (SMALL, TinyRecipe(), TinyRecipe(version=2), TinyRecipe(seed=1))
    assert len({recipe.key for recipe in recipes}) == 4


def test_it_is_an_ordinary_folder_for_transformers(tiny_cache: Path, tiny_base: Base) -> None:
    folder = tiny_folder(tiny_cache)
    tokenizer = AutoTokenizer.from_pretrained(folder)
    model = AutoModelForCausalLM.from_pretrained(folder)
    assert model.config.model_type == "gpt2"
    ids = tokenizer("Ada is a", return_tensors="pt").input_ids
    assert torch.equal(model(input_ids=ids).logits, tiny_base.model(input_ids=ids).logits)
    assert tokenizer.pad_token_id != tokenizer.eos_token_id


def test_its_tokenizer_spells_any_text(tiny_base: Base) -> None:
    for text in ("größer als 3 €", "日本語 🦉", "\x00\t\r\n", "  two  spaces "):
        assert tiny_base.tokenizer.decode(tiny_base.tokenizer(text)["input_ids"]) == text


def test_it_has_learnt_what_it_was_taught(tiny_base: Base) -> None:
    ids = tiny_base.tokenizer("Question: What is the opposite of big?\n", return_tensors="pt")
    model: Any = tiny_base.model
    written = model.generate(**ids, max_new_tokens=20, do_sample=False)
    answer = str(tiny_base.tokenizer.decode(written[0]))
    # It answers in a sentence; which one depends on the processor's rounding.
    assert re.search(r"\nAnswer: [A-Z][^\n]*\.<\|end\|>$", answer), answer
    # Texts of a seed that it never saw; a model that knows nothing is at ln 1024 = 6.9.
    unseen = tuple({"text": text} for text in islice(texts(7), 50))
    assert mean_loss(tiny_base, DataSet(RowKind.TEXT, unseen)) < 2.7
    spoken = tuple({"messages": chat} for chat in islice(chats(8), 50))
    assert mean_loss(tiny_base, DataSet(RowKind.CHAT, spoken)) < 0.9
