"""What an adapter is worth: the loss of its base on some rows, without it and with it."""

import warnings
from collections.abc import Sequence
from pathlib import Path

import torch
from peft import PeftModel
from transformers import AutoModelForCausalLM, AutoTokenizer, PreTrainedModel

from auctune.datasets import read_dataset
from auctune.train.rows import TokenizedRow, tokenize


def losses(base_folder: Path, adapter: Path, data: Path) -> tuple[float, float]:
    """Mean loss on the first rows of a data set, without an adapter and with it by plain PEFT."""
    tokenizer = AutoTokenizer.from_pretrained(base_folder)
    rows = tokenize(read_dataset(data), tokenizer, 128).rows[:32]
    base: PreTrainedModel = AutoModelForCausalLM.from_pretrained(base_folder)
    before = _loss(base, rows)
    with warnings.catch_warnings():
        # PEFT asks by a name that transformers is about to drop.
        warnings.filterwarnings("ignore", ".*is_gradient_checkpointing", FutureWarning)
        adapted = PeftModel.from_pretrained(base, str(adapter))
    return before, _loss(adapted, rows)


@torch.no_grad()
def _loss(model: torch.nn.Module, rows: Sequence[TokenizedRow]) -> float:
    """Mean loss of the trained tokens of all rows, one row a pass."""
    total, count = 0.0, 0
    for row in rows:
        ids = torch.from_numpy(row.input_ids).unsqueeze(0)
        labels = torch.from_numpy(row.labels)[1:]
        logits = model(input_ids=ids).logits[0, :-1]
        total += torch.nn.functional.cross_entropy(
            logits, labels, ignore_index=-100, reduction="sum"
        ).item()
        count += int((labels != -100).sum())
    return total / count
