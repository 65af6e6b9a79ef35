"""What tests of methods that learn from preferences compare with."""

from pathlib import Path

import torch
from peft import PeftModel
from torch import Tensor, nn

from auctune.train.base import Base
from auctune.train.job import LoraJob
from auctune.train.rows import TokenizedRow
from auctune.train.trainer import MultiLoraTrainer

TEMPLATE = """{% for message in messages %}{{ message.content + " " }}\
{% if message.role == "assistant" %}{{ eos_token }}{% endif %}{% endfor %}"""


def log_probability(model: nn.Module, row: TokenizedRow) -> Tensor:
    logits = model(input_ids=torch.from_numpy(row.input_ids).unsqueeze(0)).logits[0]
    labels = torch.from_numpy(row.labels)[1:]
    chosen = labels != -100
    found = logits[:-1][chosen].log_softmax(-1).gather(1, labels[chosen].unsqueeze(1)).sum()
    assert isinstance(found, Tensor)
    return found


def reference_of(base: Base, job: LoraJob) -> nn.Module:
    """The model that a job of preferences keeps close to."""
    model: nn.Module = base.fresh_model()
    return model if job.start_from is None else PeftModel.from_pretrained(model, job.start_from)


def load(trainer: MultiLoraTrainer, job: LoraJob, folder: Path) -> None:
    """Load a job, a new adapter far from its start."""
    trainer.load(job, folder / "none")
    if job.start_from is not None:
        return
    generator = torch.Generator().manual_seed(job.seed)
    for name, tensor in trainer.weights(job.id).items():
        if ".lora_B." in name:
            tensor.normal_(0, 0.3, generator=generator)
