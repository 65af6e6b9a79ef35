"""The adapters on one base model: PEFT names and saves them, here they are made and trained.

PEFT knows which modules an adapter is on, and takes seconds to put it there. So it does that once
for each choice of modules, on a copy of the base without weights; what it found tells names and
shapes, which is all that an adapter needs: its flat tensors, and views of them by layer.
"""

import copy
import math
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property

import torch
from peft import LoraConfig, get_peft_model
from peft.tuners.lora.layer import LoraLayer
from torch import Tensor, nn
from transformers import PreTrainedModel
from transformers.pytorch_utils import Conv1D

from auctune.domain.errors import InputError
from auctune.domain.start_adapter import Shapes, StartAdapter
from auctune.files.device_profile import module_pattern
from auctune.train.adapter_files import PREFIX, REFUSED, read_start
from auctune.train.base import Base
from auctune.train.job import LoraJob
from auctune.train.multilora.backends import Backend
from auctune.train.multilora.frozen import choose_linear, use_native_gelu
from auctune.train.multilora.layer import is_plain_linear, patch_linears
from auctune.train.multilora.plan import PassContext
from auctune.train.multilora.slots import AdapterSlots
from auctune.train.multilora.weights import LORA_A, LORA_B, AdapterWeights, new_weights

# Tokens of a row of the pass that finds out which modules see whole rows.
_DRY_WIDTH = 8
# Rows of other tokens differ by far more than this, the same ones beside other rows by less.
_DRY_RTOL = 0.05
_EXPECTED = "names of linear modules of the base"


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
    for name, values in adapter.named(adapter.values).items():
        values.copy_(torch.from_numpy(weights[name]))


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
    targets = list(start.target_modules) or "all-linear"
    config = LoraConfig(task_type="CAUSAL_LM", r=start.rank, target_modules=targets)
    return match_modules(model, config).shapes(start.rank)


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


@dataclass(frozen=True)
class MatchedModules:
    """Linear modules of a base that an adapter is on.

    Attributes:
        targets: the names by which PEFT finds them.
        modules: input and output features of each, by its name, in the order of the base.
    """

    targets: frozenset[str]
    modules: Mapping[str, tuple[int, int]]

    def shapes(self, rank: int) -> dict[str, tuple[int, ...]]:
        """Return the shapes of an adapter's parameters, by their names in the base."""
        return {
            module + part: shape
            for module, (inputs, outputs) in self.modules.items()
            for part, shape in ((LORA_A, (rank, inputs)), (LORA_B, (outputs, rank)))
        }


def match_modules(model: PreTrainedModel, config: LoraConfig) -> MatchedModules:
    """Return the modules of a base that PEFT would put an adapter on.

    PEFT does put one on a copy of the base whose weights take no memory.

    Raises:
        InputError: if there are none, or one of them is not linear.
    """
    bare = _without_weights(model)
    wanted = LoraConfig(task_type="CAUSAL_LM", r=1, target_modules=config.target_modules)
    try:
        with _peft_warnings(), torch.random.fork_rng(devices=[]):
            adapted = get_peft_model(bare, wanted)
    except ValueError as error:
        raise InputError("target_modules", str(error).splitlines()[0], _EXPECTED) from None
    found = {}
    for name, module in adapted.named_modules():
        if isinstance(module, LoraLayer):
            key = name.removeprefix(PREFIX)
            if not is_plain_linear(module.get_base_layer()):
                kind = type(module.get_base_layer()).__name__
                raise InputError(
                    "target_modules", f"{key} is of type {kind}, which is not linear", _EXPECTED
                )
            found[key] = module.in_features, module.out_features
    targets = adapted.peft_config["default"].target_modules
    return MatchedModules(frozenset(targets), found)


def _without_weights(model: PreTrainedModel) -> PreTrainedModel:
    """Return a copy of a model's modules whose weights take no memory."""
    shared: dict[int, Tensor] = {
        id(one): nn.Parameter(torch.empty_like(one, device="meta"), requires_grad=False)
        for one in model.parameters()
    }
    shared |= {id(one): torch.empty_like(one, device="meta") for one in model.buffers()}
    bare: PreTrainedModel = copy.deepcopy(model, shared)
    # PEFT would ask packed weights how they are packed.
    bare.is_loaded_in_4bit = False
    return bare


class AdaptedModel:
    """A frozen base model and the adapters on it.

    Args:
        model: its modules are changed in place; its weights are never written.
        backend: who multiplies the adapters' matrices.

    Attributes:
        linear: the product with frozen weights.
        context: of the running pass.
        adapters: by their names.
    """

    def __init__(self, model: PreTrainedModel, backend: Backend) -> None:
        self.model = model
        self.backend = backend
        weights = next(model.parameters())
        self.device, self._dtype = weights.device, weights.dtype
        self.linear = choose_linear(self.device, self._dtype)
        self.context = PassContext(self.device)
        self._matched: dict[str | tuple[str, ...], MatchedModules] = {}
        use_native_gelu(model)
        if backend.name == "triton":
            from auctune.train.multilora.fused_modules import fuse_modules

            fuse_modules(model)
        self.adapters = AdapterSlots(patch_linears(model, self.context, self.linear))

    def add(
        self, name: str, config: LoraConfig, seed: int, *, trains: bool = True
    ) -> AdapterWeights:
        """Add a new adapter: A as PEFT draws it, but from `seed` alone; B zero.

        Args:
            name: of the adapter.
            config: PEFT's; its target modules become the names of those that were found.
            seed: of A.
            trains: whether it has gradients, and values in float32; if not, they are not drawn.

        Raises:
            InputError: if the configuration asks for what is not supported, or names modules that
                the base does not have, that are not linear, or that see tokens picked from rows.
        """
        check_config(config)
        matched = self._match(config)
        config.target_modules = set(matched.targets)
        shapes = matched.shapes(config.r)
        adapter = new_weights(name, config, shapes, self.device, self._dtype, trains=trains)
        if trains:
            _draw(adapter, seed)
        self.adapters.add(adapter)
        return adapter

    def remove(self, name: str) -> None:
        """Remove an adapter, its memory with it."""
        self.adapters.remove(name)

    def _match(self, config: LoraConfig) -> MatchedModules:
        """Return the modules that a configuration names; it takes seconds once for each choice."""
        named = config.target_modules or ()
        key = named if isinstance(named, str) else tuple(sorted(named))
        if key not in self._matched:
            matched = match_modules(self.model, config)
            refused = self._unrouted
            for module in matched.modules:
                if module_pattern(module) in refused:
                    found = f"{module} sees tokens picked from rows"
                    found += ", where jobs cannot be told apart"
                    raise InputError("target_modules", found, _EXPECTED)
                weight = self.model.get_submodule(module).weight
                if weight.is_floating_point() and weight.dtype is not self._dtype:
                    found = f"{module} is in {weight.dtype}, other weights in {self._dtype}"
                    raise InputError("target_modules", found, "modules of the base's number type")
            self._matched[key] = matched
        return self._matched[key]

    @cached_property
    def _unrouted(self) -> frozenset[str]:
        return unrouted_modules(self.model)


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


@torch.no_grad()
def _draw(adapter: AdapterWeights, seed: int) -> None:
    # On the CPU, as generators of other devices draw other numbers.
    generator = torch.Generator().manual_seed(seed)
    for name, values in adapter.named(adapter.values).items():
        if name.endswith(LORA_A):
            start = torch.empty(values.shape)
            nn.init.kaiming_uniform_(start, a=math.sqrt(5), generator=generator)
            values.copy_(start)
        else:
            values.zero_()
