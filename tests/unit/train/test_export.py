import json
import subprocess
import sys
import warnings
from pathlib import Path
from typing import Any

import pytest
import torch
from peft import LoraConfig, PeftModel, get_peft_model
from torch import Tensor

from auctune.domain.dataset import DataSet, RowKind
from auctune.train.base import Base
from auctune.train.export import CHECKED_TOKENS, Exported, ExportError, export_adapter
from auctune.train.rows import TokenizedRow, tokenize

pytest_plugins = ["support.tiny_bases"]


class Trained:
    """A PEFT adapter with weights that are not those of its start."""

    def __init__(
        self, base: Base, modules: tuple[str, ...] = ("c_proj", "c_attn"), **fields: Any
    ) -> None:
        self.base = base
        self.config = LoraConfig(
            task_type="CAUSAL_LM",
            r=3,
            lora_alpha=5,
            target_modules=list(modules),
            # The orientation of GPT-2's own kind of layer.
            fan_in_fan_out=modules != ("lm_head",),
            **fields,
        )
        torch.manual_seed(0)
        fresh = base.fresh_model()
        with warnings.catch_warnings():
            # PEFT asks by a name that transformers is about to drop.
            warnings.filterwarnings("ignore", ".*is_gradient_checkpointing", FutureWarning)
            # The tiny base's output layer has its embedding's weights, which stay as they are.
            warnings.filterwarnings("ignore", "Model has `tie_word_embeddings", UserWarning)
            self.model = get_peft_model(fresh, self.config, adapter_name="job").eval()
        self.weights = {}
        for name, parameter in fresh.named_parameters():
            if parameter.requires_grad:
                torch.nn.init.normal_(parameter, std=0.1)
                self.weights[name.replace(".job.", ".")] = parameter
        texts = ({"text": "Ada is a baker."}, {"text": "3 plus 4 is 7."})
        self.rows = tokenize(DataSet(RowKind.TEXT, texts), base.tokenizer, 64).rows

    @torch.no_grad()
    def logits(self, row: TokenizedRow) -> Tensor:
        logits: Tensor = self.model(input_ids=torch.from_numpy(row.input_ids)[None]).logits[0]
        return logits

    def export(self, folder: Path, **change: Any) -> Exported:
        arguments: dict[str, Any] = {
            "config": self.config,
            "weights": self.weights,
            "rows": self.rows,
            "trained_logits": self.logits,
        }
        return export_adapter(self.base, folder=folder, **(arguments | change))


@pytest.fixture
def trained(tiny_base: Base) -> Trained:
    return Trained(tiny_base)


def test_an_adapter_on_the_output_layer_is_handed_out(tiny_base: Base, tmp_path: Path) -> None:
    trained = Trained(tiny_base, ("lm_head",))
    exported = trained.export(tmp_path / "adapter")
    assert exported.difference <= exported.allowed


def test_an_exported_adapter_loads_with_plain_peft(trained: Trained, tmp_path: Path) -> None:
    exported = trained.export(tmp_path / "adapter")
    assert exported.folder == tmp_path / "adapter"
    assert sorted(path.name for path in exported.folder.iterdir()) == [
        "adapter_config.json",
        "adapter_model.safetensors",
        "auctune.json",
    ]
    assert exported.num_rows == 2
    assert exported.difference <= exported.allowed
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", ".*is_gradient_checkpointing", FutureWarning)
        loaded = PeftModel.from_pretrained(trained.base.fresh_model(), str(exported.folder)).eval()
    for row in trained.rows:
        logits = loaded(input_ids=torch.from_numpy(row.input_ids)[None]).logits[0]
        assert torch.equal(logits, trained.logits(row))


@pytest.mark.slow
def test_it_loads_in_a_process_that_never_imports_auctune(trained: Trained, tmp_path: Path) -> None:
    folder = trained.export(tmp_path / "adapter").folder
    script = """
import json, sys
from peft import AutoPeftModelForCausalLM
model = AutoPeftModelForCausalLM.from_pretrained(sys.argv[1]).eval()
import torch
ids = torch.tensor([json.loads(sys.argv[2])])
assert not any(name.startswith("auctune") for name in sys.modules)
print(json.dumps(model(input_ids=ids).logits[0, -1].tolist()))
"""
    row = trained.rows[0]
    ended = subprocess.run(
        [sys.executable, "-c", script, str(folder), json.dumps(row.input_ids.tolist())],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert ended.returncode == 0, ended.stderr
    logits = torch.tensor(json.loads(ended.stdout))
    torch.testing.assert_close(logits, trained.logits(row)[-1], rtol=1e-4, atol=1e-4)


def test_the_same_adapter_gives_the_same_files(trained: Trained, tmp_path: Path) -> None:
    one, two = (trained.export(tmp_path / name).folder for name in ("one", "two"))
    for path in one.iterdir():
        assert path.read_bytes() == (two / path.name).read_bytes()
    config = json.loads((one / "adapter_config.json").read_text())
    assert config["target_modules"] == ["c_attn", "c_proj"]
    assert config["base_model_name_or_path"] == trained.base.source


def test_the_live_model_and_the_random_state_are_left_alone(
    trained: Trained, tmp_path: Path
) -> None:
    before = {name: tensor.clone() for name, tensor in trained.model.state_dict().items()}
    random = torch.random.get_rng_state()
    trained.export(tmp_path / "adapter")
    after = trained.model.state_dict()
    assert before.keys() == after.keys()
    assert all(torch.equal(before[name], after[name]) for name in before)
    assert torch.equal(torch.random.get_rng_state(), random)


def test_an_adapter_that_is_not_what_was_trained_is_refused(
    trained: Trained, tmp_path: Path
) -> None:
    folder = tmp_path / "adapter"
    trained.export(folder)
    (tmp_path / ".tmp-adapter-deadbeef").mkdir()
    good = (folder / "adapter_model.safetensors").read_bytes()
    weights = dict(trained.weights)
    name = next(name for name in weights if "lora_B" in name)
    weights[name] = torch.nn.Parameter(weights[name] * 1.5)
    with pytest.raises(ExportError, match="logits differ on row 0"):
        trained.export(folder, weights=weights)
    assert (folder / "adapter_model.safetensors").read_bytes() == good
    assert [path.name for path in tmp_path.iterdir()] == ["adapter"]


def test_logits_that_are_no_numbers_are_refused(trained: Trained, tmp_path: Path) -> None:
    with pytest.raises(ExportError, match="differ on row 0 by nan"):
        trained.export(tmp_path / "a", trained_logits=lambda row: trained.logits(row) * torch.nan)


def test_a_configuration_with_another_scale_is_refused(trained: Trained, tmp_path: Path) -> None:
    trained.config.lora_alpha = 50
    with pytest.raises(ExportError, match="logits differ"):
        trained.export(tmp_path / "adapter")


def test_a_weight_left_out_is_refused(trained: Trained, tmp_path: Path) -> None:
    weights = dict(trained.weights)
    del weights[next(iter(weights))]
    with pytest.raises(ExportError, match="does not load: Found missing adapter keys"):
        trained.export(tmp_path / "adapter", weights=weights)


def test_a_weight_of_another_shape_is_refused(trained: Trained, tmp_path: Path) -> None:
    trained.config.r = 4
    with pytest.raises(ExportError, match="does not load"):
        trained.export(tmp_path / "adapter")


def test_long_rows_are_compared_at_their_first_tokens_alone(
    trained: Trained, tmp_path: Path
) -> None:
    texts = ({"text": "Ada is a baker. " * 40},)
    rows = tokenize(DataSet(RowKind.TEXT, texts), trained.base.tokenizer, 256).rows
    assert len(rows[0]) > CHECKED_TOKENS
    asked: list[int] = []

    def logits(row: TokenizedRow) -> Tensor:
        asked.append(len(row))
        return trained.logits(row)

    assert trained.export(tmp_path / "adapter", rows=rows, trained_logits=logits).num_rows == 1
    assert asked == [CHECKED_TOKENS]
