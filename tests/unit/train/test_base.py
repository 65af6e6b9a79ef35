import json
import shutil
from pathlib import Path
from typing import Any

import huggingface_hub
import pytest
import torch
from safetensors.torch import load_file, save_file
from torch.cuda._utils import _get_device_index
from transformers import LlamaConfig, LlamaForCausalLM, PretrainedConfig

from auctune.domain import InputError
from auctune.train.base import Base, check_device, compute_digest, load_base, num_weight_bytes
from auctune.train.tiny import tiny_folder
from support.base_digest import digest_of
from support.one_fork_server import in_another_process

pytest_plugins = ["support.tiny_bases"]


@pytest.fixture
def folder(tiny_cache: Path, tmp_path: Path) -> Path:
    """A copy of the tiny base's folder to change."""
    return Path(shutil.copytree(tiny_folder(tiny_cache), tmp_path / "base"))


def change_config(folder: Path, **fields: Any) -> None:
    path = folder / "config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | fields))


def test_a_base_is_frozen_and_whole(tiny_base: Base) -> None:
    assert not any(parameter.requires_grad for parameter in tiny_base.model.parameters())
    assert tiny_base.name == "tiny"
    assert tiny_base.dtype is torch.float32
    assert tiny_base.context_tokens == 512
    assert tiny_base.attention == "sdpa"
    assert num_weight_bytes(tiny_base.model) == tiny_base.model.num_parameters() * 4
    assert "Embedding" not in repr(tiny_base)


def test_all_dropouts_are_off(folder: Path) -> None:
    change_config(folder, resid_pdrop=0.5, embd_pdrop=0.5, attn_pdrop=0.5)
    base = load_base(str(folder), cache=folder)
    base.model.train()
    ids = torch.arange(20)[None]
    assert torch.equal(base.model(input_ids=ids).logits, base.model(input_ids=ids).logits)
    assert base.model.config.resid_pdrop == 0


def test_dropouts_of_a_configurations_parts_are_off_too() -> None:
    from auctune.train.base import _switch_off_dropouts

    inner = LlamaConfig(attention_dropout=0.3)
    outer: Any = PretrainedConfig()
    outer.hidden_dropout, outer.dropout_name, outer.drop_last = 0.2, "kept", True
    outer.text = inner
    _switch_off_dropouts(outer)
    assert inner.attention_dropout == 0
    assert (outer.hidden_dropout, outer.dropout_name, outer.drop_last) == (0, "kept", True)


def test_the_digest_is_that_of_the_model_and_not_of_its_place(
    tiny_base: Base, folder: Path, tmp_path: Path
) -> None:
    assert load_base(str(folder), cache=tmp_path).digest == tiny_base.digest
    assert in_another_process(digest_of, folder) == tiny_base.digest


def test_the_digest_tells_other_weights_configurations_and_dtypes(
    tiny_base: Base, folder: Path
) -> None:
    half = load_base(str(folder), cache=folder, dtype="bfloat16").digest
    change_config(folder, layer_norm_epsilon=1e-6)
    other_config = load_base(str(folder), cache=folder).digest
    with torch.no_grad():
        next(tiny_base.model.parameters())[3, 5] += 1e-3
    digests = {tiny_base.digest, half, other_config, compute_digest(tiny_base.model)}
    assert len(digests) == 4


def test_a_fresh_model_shares_weights_and_nothing_else(tiny_base: Base) -> None:
    tiny_base.model.lm_head = torch.nn.Identity()
    fresh = tiny_base.fresh_model()
    again = tiny_base.fresh_model()
    ids = torch.arange(20)[None]
    assert torch.equal(fresh(input_ids=ids).logits, again(input_ids=ids).logits)
    shared = {parameter.data_ptr() for parameter in tiny_base.model.parameters()}
    assert {parameter.data_ptr() for parameter in fresh.parameters()} == shared
    assert not set(map(id, fresh.modules())) & set(map(id, again.modules()))
    assert num_weight_bytes(fresh) == sum(p.nbytes for p in fresh.parameters())


def test_a_llama_loads_and_pads_with_its_end_token(folder: Path, tmp_path: Path) -> None:
    config = LlamaConfig(
        vocab_size=1024,
        hidden_size=32,
        intermediate_size=64,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        attention_dropout=0.2,
    )
    LlamaForCausalLM(config).save_pretrained(tmp_path / "llama")
    for name in ("tokenizer.json", "tokenizer_config.json"):
        shutil.copy(folder / name, tmp_path / "llama" / name)
    path = tmp_path / "llama" / "tokenizer_config.json"
    fields = json.loads(path.read_text())
    del fields["pad_token"]
    path.write_text(json.dumps(fields))
    base = load_base(str(tmp_path / "llama"), cache=tmp_path)
    assert base.tokenizer.pad_token_id == base.tokenizer.eos_token_id
    assert base.model.config.attention_dropout == 0
    assert base.fresh_model()(input_ids=torch.arange(4)[None]).logits.shape == (1, 4, 1024)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("./nowhere", 'no such folder; expected the name "tiny", a folder'),
        ("/no/where", "no such folder"),
        ("a/b/c", "no such folder"),
        ("", "no such folder"),
        ("someone/model-GPTQ", "is quantized, which is not supported"),
        ("someone/model-bnb-4bit", "is quantized"),
        ("someone/model.Q4.gguf", "is quantized"),
    ],
)
def test_an_unknown_base_is_refused_by_name(name: str, message: str, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=message) as caught:
        load_base(name, cache=tmp_path)
    assert caught.value.place == f"base {name!r}"


def test_folders_that_hold_no_base_are_refused(folder: Path, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"without a config.json"):
        load_base(str(tmp_path), cache=tmp_path)
    weights = load_file(folder / "model.safetensors")
    del weights["transformer.h.1.mlp.c_fc.bias"]
    save_file(weights, folder / "model.safetensors", {"format": "pt"})
    with pytest.raises(InputError, match=r"lacks weights .*: transformer.h.1.mlp.c_fc.bias"):
        load_base(str(folder), cache=tmp_path)
    (folder / "model.safetensors").write_bytes(b"nothing")
    with pytest.raises(InputError, match="cannot be loaded"):
        load_base(str(folder), cache=tmp_path)
    (folder / "model.safetensors").unlink()
    with pytest.raises(InputError, match="cannot be loaded"):
        load_base(str(folder), cache=tmp_path)
    (folder / "config.json").write_text('{"model_type": "nonsense"}')
    with pytest.raises(InputError, match="cannot be loaded"):
        load_base(str(folder), cache=tmp_path)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"quantization_config": {"quant_method": "gptq", "bits": 4}}, "is quantized"),
        ({"model_type": "t5", "is_encoder_decoder": True}, "has an encoder"),
    ],
)
def test_bases_that_are_not_supported_are_refused_by_name(
    folder: Path, fields: dict[str, Any], message: str
) -> None:
    change_config(folder, **fields)
    with pytest.raises(InputError, match=message):
        load_base(str(folder), cache=folder)


def test_a_hub_name_that_cannot_be_had_is_a_clear_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_OFFLINE", True)
    with pytest.raises(InputError) as caught:
        load_base("nobody/nothing", cache=tmp_path)
    message = str(caught.value)
    assert message.startswith("base 'nobody/nothing': cannot be loaded (")
    assert len(message.splitlines()) == 1


def test_devices_and_dtypes_are_checked_before_anything_is_loaded(tmp_path: Path) -> None:
    for device in ("auto", "cuda:0,1", "tpu"):
        with pytest.raises(InputError, match="not a single device"):
            load_base("tiny", cache=tmp_path, device=device)
    with pytest.raises(InputError, match=r"device: 'cuda:99'"):
        load_base("tiny", cache=tmp_path, device="cuda:99")
    with pytest.raises(InputError, match="dtype: 'float16'; expected one of 'float32', 'bfloat16'"):
        load_base("tiny", cache=tmp_path, dtype="float16")
    assert list(tmp_path.iterdir()) == []


def test_bfloat16_is_for_devices_that_compute_in_it_and_the_named_one_is_asked(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    capabilities = [(9, 0), (7, 5)]
    monkeypatch.setattr(torch.cuda, "device_count", lambda: len(capabilities))
    monkeypatch.setattr(
        torch.cuda, "get_device_capability", lambda device: capabilities[device.index or 0]
    )
    # As torch says of GPUs that emulate it, too.
    monkeypatch.setattr(torch.cuda, "is_bf16_supported", lambda: True)

    assert check_device("cuda:0", "bfloat16") == (torch.device("cuda:0"), torch.bfloat16)
    assert check_device("cuda:1", "float32") == (torch.device("cuda:1"), torch.float32)
    with pytest.raises(InputError, match=r"bfloat16, where cuda:1 has compute capability 7\.5"):
        check_device("cuda:1", "bfloat16")
    with pytest.raises(InputError, match=r"'cuda:2' is not there; expected below cuda:2"):
        check_device("cuda:2", "float32")
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 0)
    with pytest.raises(InputError, match="no CUDA device on this machine"):
        check_device("cuda", "float32")


def test_a_gpu_without_a_number_is_the_first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    device, _ = check_device("cuda", "float32")
    assert device == torch.device("cuda:0")
    # What `torch.cuda.set_device` reads of a device, which raises where there is no number.
    assert _get_device_index(device) == 0
