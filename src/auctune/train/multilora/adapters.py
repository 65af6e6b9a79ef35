"""The adapters on one base model: PEFT makes, names and saves them, here they are trained.

PEFT keeps one adapter active and freezes the others; here all of them train at once, so parameters
are held by name. All parameters of an adapter lie in one flat tensor and its gradients in another,
of which PEFT's parameters are views: the norm, the optimizer and a checkpoint each see one tensor.
"""

import math
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import torch
from peft import LoraConfig, PeftModel, get_peft_model
from peft.tuners.lora.layer import LoraLayer
from torch import Tensor, nn
from transformers import AutoModelForCausalLM, PreTrainedModel
from transformers.pytorch_utils import Conv1D

from auctune.device_profile import module_pattern
from auctune.domain.errors import InputError
from auctune.domain.start_adapter import Shapes, StartAdapter
from auctune.train.adapter_files import PREFIX, REFUSED, read_start
from auctune.train.base import Base
from auctune.train.job import LoraJob
from auctune.train.multilora.backends import Backend
from auctune.train.multilora.frozen import patch_frozen_linears
from auctune.train.multilora.layer import MultiLoraLinear, RoutingContext, custom_modules
from auctune.train.multilora.optimizer import FlatAdapter

# Tokens of a row of the pass that finds out which modules see whole rows.
_DRY_WIDTH = 8
# Rows of other tokens differ by far more than this, the same ones beside other rows by less.
_DRY_RTOL = 0.05


@dataclass(frozen=True)
class AdapterWeights(FlatAdapter):
    """One adapter on a model.

    Attributes:
        name: PEFT's name for the adapter.
        parameters: PEFT's, views of `values`, by their names in the model, the adapter's own name
            left out.
    """

    name: str
    parameters: dict[str, nn.Parameter]


@torch.no_grad()
def load_start(adapter: AdapterWeights, job: LoraJob, base_digest: str) -> None:
    """Give a new adapter the weights that its job starts from, if it starts from an adapter.

    Raises:
        InputError: if those files are not the adapter that the job names, or not one of the base.
    """
    if job.start_from is None:
        return
    place = "start_from"
    start, weights = read_start(job.start_from, place)
    if start.digest != job.start_digest:
        found = "is not the adapter that the job was accepted with: its files have changed"
        raise InputError(place, found, "files that stay as they are")
    start.check_base(base_digest, place)
    start.check_shapes(adapter.shapes, place)
    for name, parameter in adapter.parameters.items():
        parameter.copy_(torch.from_numpy(weights[name]))


def check_start(base: Base, start: StartAdapter, place: str) -> None:
    """Check that an adapter is one of a base.

    Raises:
        InputError: naming `place`.
    """
    start.check_base(base.digest, place)
    start.check_shapes(adapter_shapes(start, base.model), place)


def adapter_shapes(start: StartAdapter, model: PreTrainedModel) -> Shapes:
    """Return the shapes that an adapter of these settings has on a base, as PEFT makes it.

    Raises:
        InputError: if the base does not have its target modules.
    """
    config = LoraConfig(
        task_type="CAUSAL_LM",
        r=start.rank,
        target_modules=list(start.target_modules) or "all-linear",
    )
    with torch.device("meta"), _peft_warnings():
        bare = AutoModelForCausalLM.from_config(model.config)
        try:
            adapted = get_peft_model(bare, config)
        except ValueError as error:
            raise InputError(
                "target_modules", str(error).splitlines()[0], "names of linear modules of the base"
            ) from None
    return {
        name.removeprefix(PREFIX).replace(".default.", "."): tuple(parameter.shape)
        for name, parameter in adapted.named_parameters()
        if ".lora_" in name
    }


def lora_config(job: LoraJob, model: PreTrainedModel) -> LoraConfig:
    """PEFT's configuration of a job's adapter."""
    return LoraConfig(
        task_type="CAUSAL_LM",
        r=job.rank,
        lora_alpha=job.alpha,
        lora_dropout=job.dropout,
        use_rslora=job.use_rslora,
        target_modules=list(job.target_modules) or "all-linear",
        fan_in_fan_out=any(isinstance(module, Conv1D) for module in model.modules()),
    )


class AdaptedModel:
    """A frozen base model and the adapters on it.

    Args:
        model: its modules are replaced in place; its weights are never written.
        backend: who multiplies the adapters' matrices.
    """

    def __init__(self, model: PreTrainedModel, backend: Backend) -> None:
        self.model = model
        self.backend = backend
        self.linear = patch_frozen_linears(model)
        self.routing_context = RoutingContext()
        self.adapters: dict[str, AdapterWeights] = {}
        self.peft: PeftModel | None = None
        self._unrouted: frozenset[str] | None = None

    def add(self, name: str, config: LoraConfig, seed: int) -> AdapterWeights:
        """Put in a new adapter: A as PEFT draws it, but from `seed` alone; B zero.

        Raises:
            InputError: if the configuration asks for what is not supported, or names modules that
                the base does not have, that are not linear, or that see tokens picked from rows.
        """
        check_config(config)
        mapping = custom_modules(self.routing_context, self.backend, self.linear)
        config._register_custom_module(mapping)
        if self._unrouted is None:
            self._unrouted = unrouted_modules(self.model)
        try:
            self._inject(name, config)
            adapter = self._flatten(name)
            _draw(adapter, seed)
        except ValueError as error:
            self._forget(name)
            raise InputError(
                "target_modules", str(error).splitlines()[0], "names of linear modules of the base"
            ) from None
        except BaseException:
            # Memory that runs out leaves a part of the layers behind.
            self._forget(name)
            raise
        for kept in self.adapters.values():
            _set_trainable(kept)
        self.adapters[name] = adapter
        return adapter

    def remove(self, name: str) -> None:
        """Take an adapter out, its memory with it."""
        del self.adapters[name]
        self._forget(name)

    def config(self, name: str) -> LoraConfig:
        """PEFT's configuration of an adapter, its target modules known."""
        assert self.peft is not None
        config = self.peft.peft_config[name]
        assert isinstance(config, LoraConfig)
        return config

    def _inject(self, name: str, config: LoraConfig) -> None:
        # PEFT draws the start of each matrix from the global state, which is not ours to move.
        with torch.random.fork_rng(devices=[]), _peft_warnings():
            if self.peft is None:
                self.peft = get_peft_model(self.model, config, adapter_name=name)
            else:
                self.peft.add_adapter(name, config)
        self._deactivate()
        self._check_linear(name)
        self._check_routed(name)

    def _check_linear(self, name: str) -> None:
        for key, module in self.model.named_modules():
            if isinstance(module, LoraLayer) and not isinstance(module, MultiLoraLinear):
                held = {*module.lora_A, *module.lora_embedding_A}
                if name in held:
                    kind = type(module.get_base_layer()).__name__
                    raise ValueError(f"{key} is of type {kind}, which is not linear")

    def _check_routed(self, name: str) -> None:
        for key, module in self.model.named_modules():
            has_adapter = isinstance(module, MultiLoraLinear) and name in module.lora_A
            if has_adapter and module_pattern(key) in (self._unrouted or ()):
                raise ValueError(
                    f"{key} sees tokens picked from rows, where jobs cannot be told apart"
                )

    def _deactivate(self) -> None:
        # Without an active adapter PEFT has none to switch to, with a warning, on a removal.
        for layer in self._layers():
            layer.set_adapter([])

    def _forget(self, name: str) -> None:
        self._deactivate()
        if self.peft is not None and name in self.peft.peft_config:
            self.peft.delete_adapter(name)
        # PEFT forgets its configuration of an adapter that it failed to put in, not the layers.
        for module in self.model.modules():
            if isinstance(module, LoraLayer):
                module.delete_adapter(name)
        for kept in self.adapters.values():
            _set_trainable(kept)

    def _layers(self) -> list[MultiLoraLinear]:
        return [module for module in self.model.modules() if isinstance(module, MultiLoraLinear)]

    def _flatten(self, name: str) -> AdapterWeights:
        middle = f".{name}."
        found = {
            key.replace(middle, "."): parameter
            for key, parameter in self.model.named_parameters()
            if middle in key
        }
        total = sum(parameter.numel() for parameter in found.values())
        device = next(iter(found.values())).device
        values = torch.empty(total, device=device)
        shapes = {key: tuple(parameter.shape) for key, parameter in found.items()}
        adapter = AdapterWeights(shapes, values, torch.zeros_like(values), name, found)
        places, gradients = adapter.named(adapter.values), adapter.named(adapter.gradients)
        for key, parameter in found.items():
            parameter.data = places[key].copy_(parameter.data)
            parameter.grad = gradients[key]
        _set_trainable(adapter)
        return adapter


@contextmanager
def _peft_warnings() -> Iterator[None]:
    """Ignore PEFT's warnings about what is as it should be here."""
    with warnings.catch_warnings():
        # PEFT asks by a name that transformers is about to drop.
        warnings.filterwarnings("ignore", ".*is_gradient_checkpointing", FutureWarning)
        # An adapter on an output layer with the embedding's weights leaves those as they are.
        warnings.filterwarnings("ignore", "Model has `tie_word_embeddings", UserWarning)
        # One adapter may be on layers of both orientations; PEFT looks at each.
        warnings.filterwarnings("ignore", "fan_in_fan_out is set to", UserWarning)
        yield


@torch.no_grad()
def unrouted_modules(model: PreTrainedModel) -> frozenset[str]:
    """Return the linear modules of a model, by `module_pattern`, that see other than whole rows.

    A fused layer must know whose token each one is. Inputs [rows, width, in] say so, and so do
    [rows * width, in] in the order of rows. An expert that sees the tokens that chose it does not,
    nor do its like that were not chosen: a pattern stands for all of them.
    """
    device = next(model.parameters()).device
    ids = torch.arange(2 * _DRY_WIDTH, device=device) % model.config.vocab_size
    ids = ids.view(2, _DRY_WIDTH)
    both = _linear_inputs(model, ids)
    # Few bases have any.
    flat = any(x.dim() == 2 for x in both.values())
    alone = [_linear_inputs(model, row.unsqueeze(0)) for row in ids] if flat else []
    found = set()
    for key, x in both.items():
        if x.dim() == 3 and x.shape[:2] == ids.shape:
            continue
        parts = [inputs[key] for inputs in alone if key in inputs]
        is_whole = x.dim() == 2 and len(x) == ids.numel() and len(parts) == len(ids)
        if not (is_whole and torch.allclose(x, torch.cat(parts), rtol=_DRY_RTOL, atol=_DRY_RTOL)):
            found.add(module_pattern(key))
    return frozenset(found)


def _linear_inputs(model: PreTrainedModel, ids: Tensor) -> dict[str, Tensor]:
    """Return what each linear module is given in a pass, by its name."""
    found: dict[str, Tensor] = {}
    hooks = [
        module.register_forward_pre_hook(
            lambda _, inputs, key=key: found.__setitem__(key, inputs[0])
        )
        for key, module in model.named_modules()
        if isinstance(module, nn.Linear | Conv1D)
    ]
    was_training = model.training
    try:
        model.train(False)
        model(input_ids=ids, use_cache=False)
    finally:
        model.train(was_training)
        for hook in hooks:
            hook.remove()
    return found


def check_config(config: LoraConfig) -> None:
    """Refuse by name what the fused layers do not compute.

    Raises:
        InputError: naming it.
    """
    for field, meaning in REFUSED.items():
        if getattr(config, field, None):
            raise InputError(field, f"{meaning} is not supported", "plain LoRA adapters")
    if config.bias != "none":
        raise InputError("bias", f"{config.bias!r} is not supported", "'none'")
    if config.init_lora_weights is not True:
        raise InputError(
            "init_lora_weights", f"{config.init_lora_weights!r} is not supported", "True"
        )


def _set_trainable(adapter: AdapterWeights) -> None:
    for parameter in adapter.parameters.values():
        parameter.requires_grad_(True)


@torch.no_grad()
def _draw(adapter: AdapterWeights, seed: int) -> None:
    # On the CPU, as generators of other devices draw other numbers.
    generator = torch.Generator().manual_seed(seed)
    for name, parameter in adapter.parameters.items():
        if ".lora_A." in name:
            start = torch.empty(parameter.shape)
            nn.init.kaiming_uniform_(start, a=math.sqrt(5), generator=generator)
            parameter.copy_(start)
        else:
            parameter.zero_()
