from functools import partial
from pathlib import Path

import pytest
import torch
from torch.nn import functional
from transformers import (
    CohereConfig,
    CohereForCausalLM,
    Gemma2Config,
    Gemma2ForCausalLM,
    PreTrainedModel,
)
from transformers.modeling_layers import GradientCheckpointingLayer

from auctune.train.job import LoraJob
from auctune.train.multilora import step
from auctune.train.multilora.frozen import Linear, onednn_linear
from auctune.train.multilora.step import FusedLinearCrossEntropy, has_plain_head
from auctune.train.peak_memory import peak_bytes
from auctune.train.trainer import MultiLoraTrainer
from support.small_bases import FAMILIES, build_base, write_rows


@pytest.mark.parametrize("linear", [functional.linear, onednn_linear], ids=["torch", "onednn"])
@pytest.mark.parametrize("has_bias", [False, True])
@pytest.mark.parametrize("block", [1, 40, 1 << 20])
def test_loss_gradient_and_hits_are_those_of_cross_entropy_and_argmax(
    monkeypatch: pytest.MonkeyPatch, linear: Linear, has_bias: bool, block: int
) -> None:
    monkeypatch.setattr(step, "BLOCK_ELEMENTS", {"cpu": block})
    torch.manual_seed(0)
    hidden = torch.randn(7, 5, requires_grad=True)
    head = 3 * torch.randn(11, 5)
    bias = torch.randn(11) if has_bias else None
    likeliest = functional.linear(hidden, head, bias).argmax(1)
    labels, weights = torch.where(torch.arange(7) % 2 == 0, likeliest, 3), torch.rand(7)
    total, losses, hits = FusedLinearCrossEntropy.apply(  # type: ignore[no-untyped-call]
        hidden, head, bias, labels, weights, linear
    )
    torch.autograd.backward(2 * total)

    other = hidden.detach().clone().requires_grad_()
    expected = functional.cross_entropy(
        functional.linear(other, head, bias), labels, reduction="none"
    )
    torch.autograd.backward(2 * (expected * weights).sum())
    torch.testing.assert_close(losses, expected.detach())
    torch.testing.assert_close(total.detach(), (expected * weights).sum().detach())
    torch.testing.assert_close(hidden.grad, other.grad)
    assert torch.equal(hits, labels == likeliest)
    assert 4 <= hits.sum() < 7


def test_large_logits_overflow_nothing() -> None:
    hidden = torch.tensor([[200.0]], requires_grad=True)
    head, labels, weights = torch.tensor([[1.0], [-1.0]]), torch.tensor([1]), torch.ones(1)
    total, losses, _ = FusedLinearCrossEntropy.apply(
        hidden, head, None, labels, weights, functional.linear
    )  # type: ignore[no-untyped-call]
    torch.autograd.backward(total)
    assert losses.tolist() == [400.0]
    assert hidden.grad is not None
    assert hidden.grad.item() == pytest.approx(2.0)


@pytest.mark.parametrize("family", FAMILIES)
def test_the_fewer_layers_are_recomputed_the_more_memory_a_pass_takes_for_the_same_bits(
    tmp_path: Path, family: str
) -> None:
    base = build_base(tmp_path, family, num_layers=4)
    job = LoraJob("job", write_rows(tmp_path / "rows.jsonl", 24, seed=1), batch_size=8, dropout=0.2)
    peaks, weights, recomputed = [], [], []
    for every in (1, 2, 4, 0):
        trainer = MultiLoraTrainer(base, checkpointing=every)
        trainer.load(job, tmp_path / "none")
        layers = [
            module.gradient_checkpointing
            for module in trainer.adapted.model.modules()
            if isinstance(module, GradientCheckpointingLayer)
        ]
        recomputed.append(sum(layers))
        train = partial(trainer.train, {job.id: 24}, lambda _: None)
        peaks.append(peak_bytes(train, base.device))
        weights.append(trainer.task(job.id).weights.values)
    assert recomputed == [4, 2, 1, 0]
    assert peaks == sorted(set(peaks))
    assert all(torch.equal(one, weights[0]) for one in weights)


def test_without_a_gradient_to_give_none_is_computed() -> None:
    hidden, head = torch.randn(3, 5), torch.randn(4, 5)
    total, *_ = FusedLinearCrossEntropy.apply(  # type: ignore[no-untyped-call]
        hidden, head, None, torch.zeros(3, dtype=torch.int64), torch.ones(3), functional.linear
    )
    assert not total.requires_grad


@pytest.mark.parametrize(
    ("change", "expected"),
    [({}, True), ({"logit_scale": 0.5}, False), ({"final_logit_softcapping": 30.0}, False)],
)
def test_a_head_is_plain_unless_logits_are_changed_after_it(
    change: dict[str, float], expected: bool
) -> None:
    shape = {
        "vocab_size": 64, "hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 1,
        "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 8,
    }  # fmt: skip
    model: PreTrainedModel = (
        CohereForCausalLM(CohereConfig(**shape, **{"logit_scale": 1.0} | change))
        if "logit_scale" in change
        else Gemma2ForCausalLM(Gemma2Config(**shape, **{"final_logit_softcapping": None} | change))
    )
    assert has_plain_head(model) is expected
