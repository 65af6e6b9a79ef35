"""The base model: loaded once a process, frozen, and shared by all adapters of a node.

Its own dropouts are set to 0, so that an adapter's result depends on nothing but the adapter's own
masks. A base is identified by its digest: SHA-256 over its configuration and its weights as loaded,
or as they were before they were packed into 4 bits, whose values depend on the device.
"""

import copy
import hashlib
import json
import re
import time
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import torch
from torch import nn
from transformers import (
    AutoConfig,
    AutoModelForCausalLM,
    AutoTokenizer,
    BitsAndBytesConfig,
    PretrainedConfig,
    PreTrainedModel,
    PreTrainedTokenizerBase,
)
from transformers.pytorch_utils import Conv1D

from auctune.domain.base_name import EXPECTED
from auctune.domain.errors import InputError
from auctune.extras import install_command
from auctune.files.device_profile import module_pattern
from auctune.train.tokenizer import check_config, context_of, find_source, give_padding, loading

# What is computed in, by the number type of the weights.
DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16, "nf4": torch.bfloat16}
# Compute capability from which on a GPU has bfloat16 units.
BF16_CAPABILITY = (8, 0)
# Properties of the run, not of the model: they differ between machines, folders and releases.
VOLATILE_FIELDS = {"transformers_version", "_name_or_path", "dtype", "torch_dtype", "use_cache"}


@dataclass(frozen=True)
class Base:
    """A frozen base model with its tokenizer.

    Attributes:
        name: as the user named it.
        source: the folder or hub name that it was loaded from.
        model: no parameter requires a gradient, its own dropouts are 0; on `device`.
        tokenizer: has a token to pad with.
        digest: SHA-256 over configuration and weights, in hexadecimal; equal on all devices.
        architecture: the same without the weights' values: what is as fast as it has the same.
        dtype: of the computation.
        load_seconds: that it took to load; to build the tiny base is not part of it.
    """

    name: str
    source: str
    model: PreTrainedModel = field(repr=False)
    tokenizer: PreTrainedTokenizerBase = field(repr=False)
    digest: str
    architecture: str
    device: torch.device
    dtype: torch.dtype
    load_seconds: float
    _untouched: PreTrainedModel = field(repr=False)

    @property
    def context_tokens(self) -> int | None:
        """Maximum tokens of a row that the model has positions for, or `None`."""
        return context_of(self.model.config)

    @property
    def weight_dtype(self) -> str:
        """The number type of the weights: one of `DTYPES`."""
        is_quantized = getattr(self.model, "is_loaded_in_4bit", False)
        return "nf4" if is_quantized else str(self.dtype).removeprefix("torch.")

    @property
    def attention(self) -> str:
        """The implementation of attention that is in use, by transformers' name for it."""
        return str(self.model.config._attn_implementation)

    def fresh_model(self) -> PreTrainedModel:
        """Return the model as it was loaded, without the adapters that `model` has.

        Its modules are new; its weights are the same memory as `model`'s and must stay unchanged.
        """
        return share_weights(self._untouched)


def load_base(name: str, *, cache: Path, device: str = "cpu", dtype: str = "float32") -> Base:
    """Load a base model and its tokenizer.

    Args:
        name: as `resolve_base` reads it; only for a name on the hub is the network used.
        cache: folder where the tiny base is kept once it is built.
        device: "cpu", "cuda" or "cuda:N".
        dtype: "float32", "bfloat16", or "nf4": linear layers, but for the output layer, are kept
            with 4 bits a number (Dettmers et al., 2023), which needs bitsandbytes.

    Raises:
        InputError: if the base does not exist, or cannot be trained here.
    """
    place = f"base {name!r}"
    target, number_type = check_device(device, dtype)
    source, local = find_source(name, cache)
    if target.type == "cuda":
        # Calls that name no device would open a context on the first GPU, half a gigabyte.
        torch.cuda.set_device(target)
    started = time.perf_counter()
    with loading(place):
        config = AutoConfig.from_pretrained(source, local_files_only=local)
        check_config(name, config)
        _switch_off_dropouts(config)
        options = {"dtype": number_type, "local_files_only": local}
        packing = _quantization(target) if dtype == "nf4" else {}
        model = _load_model(place, source, config, **options, **packing)
        if packing:
            _check_packed(place, model, target)
            digest = _packed_digest(model, _load_model(place, source, config, **options))
        else:
            digest = compute_digest(model)
        tokenizer = AutoTokenizer.from_pretrained(source, local_files_only=local)
    _freeze(model)
    give_padding(tokenizer, place)
    model.to(target)
    return Base(
        name=name,
        source=source,
        model=model,
        tokenizer=tokenizer,
        digest=digest,
        architecture=compute_architecture(model),
        device=target,
        dtype=number_type,
        load_seconds=time.perf_counter() - started,
        _untouched=share_weights(model),
    )


# Numbers of 4 bits that share a scale.
_BLOCK_4BIT = 64


def check_device(device: str, dtype: str) -> tuple[torch.device, torch.dtype]:
    """Return the device and number type of these names.

    Raises:
        InputError: if they are unknown, or this machine does not have them.
    """
    target = _find_device(device)
    return target, _find_dtype(dtype, target)


def _quantization(device: torch.device) -> dict[str, Any]:
    if find_spec("bitsandbytes") is None:
        expected = f"bitsandbytes beside auctune: {install_command('gpu')}"
        raise InputError("dtype", "'nf4', where bitsandbytes is not installed", expected)
    settings = BitsAndBytesConfig(
        load_in_4bit=True,
        bnb_4bit_quant_type="nf4",
        bnb_4bit_use_double_quant=True,
        bnb_4bit_compute_dtype=DTYPES["nf4"],
    )
    return {"quantization_config": settings, "device_map": {"": device}}


def _check_packed(place: str, model: nn.Module, device: torch.device) -> None:
    """Refuse what bitsandbytes computes wrongly on CPUs, and have it keep its layout of weights.

    Its kernels for AVX-512 read a row as whole blocks. In a first pass without gradients it would
    pack the weights anew, on CPUs with bfloat16 instructions, as only its own layers read them.
    """
    if device.type != "cpu":
        return
    for name, module in model.named_modules():
        if hasattr(module, "support_avx512bf16_for_cpu"):
            module.support_avx512bf16_for_cpu = False
            if module.in_features % _BLOCK_4BIT:
                found = f"'nf4', and {name} has {module.in_features} inputs"
                expected = f"a multiple of {_BLOCK_4BIT} inputs on a CPU, or another dtype"
                raise InputError(place, f"dtype {found}", expected)


def compute_digest(model: PreTrainedModel) -> str:
    """Return SHA-256 over a model's configuration and weights, in hexadecimal."""
    total = _begin_digest(model)
    for key, tensor in sorted(model.state_dict().items()):
        total.update(_signature(key, tensor))
        content = tensor.detach().cpu().contiguous().reshape(-1).view(torch.uint8)
        total.update(memoryview(content.numpy()))
    return total.hexdigest()


def _packed_digest(model: PreTrainedModel, unpacked: PreTrainedModel) -> str:
    """Return the digest of a model of 4 bits by its weights before they were packed."""
    total = _begin_digest(model)
    total.update(compute_digest(unpacked).encode())
    return total.hexdigest()


def compute_architecture(model: PreTrainedModel) -> str:
    """Return SHA-256 over a model's configuration and its weights' names, types and shapes."""
    total = _begin_digest(model)
    for key, tensor in sorted(model.state_dict().items()):
        # Bitsandbytes' own record of packed weights: JSON, as long as its numbers have digits.
        if "bitsandbytes__" not in key:
            total.update(_signature(key, tensor))
    return total.hexdigest()


def _begin_digest(model: PreTrainedModel) -> "hashlib._Hash":
    return hashlib.sha256(json.dumps(_persistent_config(model.config), sort_keys=True).encode())


def _signature(key: str, tensor: torch.Tensor) -> bytes:
    return f"{key} {tensor.dtype} {tuple(tensor.shape)}\n".encode()


def num_weight_bytes(model: nn.Module) -> int:
    """Return the bytes of a module's parameters and buffers, each storage counted once."""
    storages = {
        tensor.untyped_storage().data_ptr(): tensor.untyped_storage().nbytes()
        for tensor in (*model.parameters(), *model.buffers())
    }
    return sum(storages.values())


def linear_features(model: PreTrainedModel) -> dict[str, int]:
    """Return input plus output features of the modules that LoRA can adapt, summed over layers.

    Modules that differ only in the numbers in their names count as one, with * for the numbers.
    """
    features: dict[str, int] = {}
    for name, module in model.named_modules():
        if isinstance(module, nn.Linear | Conv1D):
            pattern = module_pattern(name)
            sizes = (
                module.weight.shape
                if isinstance(module, Conv1D)
                else (module.in_features, module.out_features)
            )
            features[pattern] = features.get(pattern, 0) + sum(sizes)
    return features


def default_modules(model: PreTrainedModel) -> tuple[str, ...]:
    """Return the patterns of the modules that get an adapter by default: PEFT's "all-linear"."""
    head = model.get_output_embeddings()
    outside = {module_pattern(name) for name, module in model.named_modules() if module is head}
    return tuple(name for name in linear_features(model) if name not in outside)


def _load_model(
    place: str, source: str, config: PretrainedConfig, **options: Any
) -> PreTrainedModel:
    loading: Any = AutoModelForCausalLM.from_pretrained(
        source, config=config, output_loading_info=True, **options
    )
    model: PreTrainedModel = loading[0]
    missing = sorted(loading[1]["missing_keys"])
    # Transformers would continue with randomly initialized weights.
    if missing:
        names = ", ".join(missing[:3])
        raise InputError(place, f"lacks weights of its architecture: {names}", EXPECTED)
    return model


def _find_device(device: str) -> torch.device:
    """The one device that is named; a base spread over several is refused by name."""
    if device == "cpu":
        return torch.device("cpu")
    if not re.fullmatch(r"cuda(:\d+)?", device):
        raise InputError(
            "device", f"{device!r} is not a single device", '"cpu", "cuda" or "cuda:N"'
        )
    num_devices = torch.cuda.device_count()
    # torch's own calls, such as `set_device`, want a number.
    target = torch.device("cuda", torch.device(device).index or 0)
    if num_devices == 0:
        raise InputError("device", f"{device!r}: no CUDA device on this machine", '"cpu"')
    if target.index >= num_devices:
        raise InputError("device", f"{device!r} is not there", f"below cuda:{num_devices}")
    return target


def _find_dtype(dtype: str, device: torch.device) -> torch.dtype:
    if dtype not in DTYPES:
        raise InputError("dtype", f"{dtype!r}", f"one of {', '.join(map(repr, DTYPES))}")
    # A CPU computes bfloat16 in any case, if slowly. For GPUs torch reports support on older
    # ones too, which emulate it, and for the current device rather than the named one.
    if DTYPES[dtype] is torch.bfloat16 and device.type == "cuda":
        capability = torch.cuda.get_device_capability(device)
        if capability < BF16_CAPABILITY:
            found = f"{device} has compute capability {capability[0]}.{capability[1]}"
            raise InputError("dtype", f"{dtype}, where {found}", "'float32', or 8.0 or later")
    return DTYPES[dtype]


def _switch_off_dropouts(config: PretrainedConfig) -> None:
    """Set every probability of a dropout to 0, in the parts of a configuration too."""
    for key, value in list(vars(config).items()):
        if isinstance(value, PretrainedConfig):
            _switch_off_dropouts(value)
        elif ("drop" in key) and isinstance(value, float) and value:
            setattr(config, key, 0.0)


def _freeze(model: PreTrainedModel) -> None:
    model.requires_grad_(False)
    for module in model.modules():
        # Some architectures fix a probability in code instead of the configuration.
        if isinstance(module, nn.modules.dropout._DropoutNd):
            module.p = 0.0


def share_weights(model: PreTrainedModel) -> PreTrainedModel:
    """Return a copy of a model's modules over the same parameters."""
    shared = {id(parameter): parameter for parameter in model.parameters()}
    duplicate: PreTrainedModel = copy.deepcopy(model, shared)
    return duplicate


def _persistent_config(config: PretrainedConfig) -> dict[str, Any]:
    """Return the part of a configuration that determines what the model computes."""
    return {
        key: value for key, value in config.to_diff_dict().items() if key not in VOLATILE_FIELDS
    }
