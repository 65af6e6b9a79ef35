"""Export of a trained adapter: PEFT's two files and a record, verified by loading them.

    folder/adapter_config.json
           adapter_model.safetensors
           auctune.json                 digest of the base that it was trained on

They are written beside their place and loaded back from there by `PeftModel.from_pretrained` onto
the base as it was loaded, which knows nothing of the trainer's own layers. The weights must come
back bit for bit, and the logits at the first tokens of rows of the job's own data must be those of
the trained adapter, but for rounding:

    rms(loaded - trained) <= e rms(trained) + 3 rms(noisy - loaded)

rms is the root mean square over tokens and vocabulary, and e the error of one rounded sum in the
number type. How far it grows on its way through a model depends on depth and weights, so it is
measured: `noisy` is the loaded adapter once more, the outputs of its adapted modules multiplied by
1 + u, u uniform in [-e, e]. Only then is the folder put in its place. The check holds the
adapter a second time, the base not.
"""

import math
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import torch
from peft import LoraConfig, PeftModel, get_peft_model_state_dict
from peft.tuners.lora import LoraLayer
from safetensors.torch import save_file
from torch import Tensor
from transformers import PreTrainedModel

from auctune.domain.epoch_metrics import EpochMetrics
from auctune.domain.errors import AuctuneError
from auctune.files.atomic import clean_staging, commit_folder, staging_folder
from auctune.train.adapter_files import PREFIX, WEIGHTS, write_record
from auctune.train.base import Base
from auctune.train.rows import TokenizedRow

CHECKED_ROWS = 4
# Each token goes through all weights of an adapter. Logits are [tokens, vocabulary] of both models,
# gigabytes for whole rows of a large vocabulary, on a device whose memory is sold.
CHECKED_TOKENS = 64
# Half a unit in the last place for bfloat16, whose products are summed in float32 and rounded once.
# Sums of thousands of float32 that are added in another order differ by some tens of it.
_ROUNDING = {torch.float32: 32 * 2.0**-24, torch.bfloat16: 2.0**-8}
_NOISE_MARGIN = 3.0

TrainedLogits = Callable[[TokenizedRow], Tensor]
"""The logits [tokens, vocabulary] of a row, with the adapter as it was trained, dropout off."""


class ExportError(AuctuneError):
    """An adapter that was written is not, once loaded, the one that was trained."""


@dataclass(frozen=True, slots=True)
class Exported:
    """An adapter that was written and checked.

    Attributes:
        folder: where it is.
        num_rows: rows that it was checked on.
        difference: between loaded and trained logits, root mean square over a row; of the row
            where it comes closest to what is allowed.
        allowed: what would have passed there.
    """

    folder: Path
    num_rows: int
    difference: float
    allowed: float


def export_adapter(
    base: Base,
    config: LoraConfig,
    weights: Mapping[str, Tensor],
    folder: Path,
    *,
    rows: Sequence[TokenizedRow],
    trained_logits: TrainedLogits,
) -> Exported:
    """Write an adapter in PEFT's format, and verify that it is the one that was trained.

    Args:
        base: that it was trained on.
        config: of the adapter, its target modules known.
        weights: by their names in the base model, `transformer.h.0.attn.c_attn.lora_A.weight`.
        folder: to be written; what is there is replaced, once the new one is checked.
        rows: of the job's own data, one at least; the first few are used.
        trained_logits: of the live adapter.

    Raises:
        ExportError: if it does not load, or not as what was trained; `folder` is as it was then.
    """
    assert rows, "an adapter is checked on one row at least"
    clean_staging(folder.parent, folder.name)
    with staging_folder(folder) as unfinished:
        contents = write_adapter(base, config, weights, unfinished)
        loaded = load_adapter(base, unfinished)
        _check_weights(loaded, contents)
        exported = _check_logits(loaded, folder, rows[:CHECKED_ROWS], trained_logits, base.dtype)
        commit_folder(unfinished, folder)
    return exported


def write_adapter(
    base: Base,
    config: LoraConfig,
    weights: Mapping[str, Tensor],
    folder: Path,
    metrics: EpochMetrics | None = None,
) -> dict[str, Tensor]:
    """Write the files of an adapter into a folder; arguments as of `export_adapter`.

    Returns:
        The weights as written, on the CPU, by PEFT's names.
    """
    contents = {
        PREFIX + name: tensor.detach().to("cpu", copy=True).contiguous()
        for name, tensor in weights.items()
    }
    plain_config(config, base.source).save_pretrained(str(folder))
    save_file(contents, folder / WEIGHTS, {"format": "pt"})
    write_record(base.digest, folder, metrics)
    return contents


def plain_config(config: LoraConfig, source: str) -> LoraConfig:
    """The configuration without anything that only the trainer knows, always in the same words.

    Args:
        config: of an adapter whose target modules are known.
        source: the folder or hub name of the base.
    """
    fields = dict(config.to_dict())
    fields |= {"base_model_name_or_path": source, "inference_mode": True}
    plain: LoraConfig = LoraConfig.from_peft_type(**fields)
    if not isinstance(plain.target_modules, str):
        # PEFT keeps a set, whose order changes from one process to the next.
        plain.target_modules = sorted(plain.target_modules or ())
    return plain


def load_adapter(base: Base, folder: Path) -> PeftModel:
    """Return an adapter on its base, in evaluation mode.

    Raises:
        ExportError: if it is not one of this base.
    """
    return put_adapter(base.fresh_model(), folder)


def put_adapter(model: PreTrainedModel, folder: Path) -> PeftModel:
    """Return a model with an adapter on it, in evaluation mode; arguments, errors: `load_adapter`.

    The modules of `model` are replaced in place.
    """
    # PEFT draws a start for the weights before it reads them, from a state that is not ours.
    with torch.random.fork_rng(_devices(model)), warnings.catch_warnings():
        # PEFT asks by a name that transformers is about to drop.
        warnings.filterwarnings("ignore", ".*is_gradient_checkpointing", FutureWarning)
        # Both are harmless, as where the adapter was made.
        warnings.filterwarnings("ignore", "Model has `tie_word_embeddings", UserWarning)
        warnings.filterwarnings("ignore", "fan_in_fan_out is set to", UserWarning)
        # PEFT would continue with randomly initialized weights.
        warnings.filterwarnings("error", "Found missing adapter keys", UserWarning)
        try:
            loaded: PeftModel = PeftModel.from_pretrained(
                model, str(folder), torch_device=str(model.device)
            )
        except (ValueError, RuntimeError, UserWarning) as error:
            raise ExportError(f"the adapter does not load: {error}") from error
    return loaded.eval()


def _devices(model: PreTrainedModel | PeftModel) -> list[torch.device]:
    return [model.device] if model.device.type == "cuda" else []


def _check_weights(loaded: PeftModel, contents: Mapping[str, Tensor]) -> None:
    # Left to itself PEFT adds the base's own output layer where an adapter is on it.
    found = get_peft_model_state_dict(loaded, save_embedding_layers=False)
    if found.keys() != contents.keys():
        names = ", ".join(sorted(found.keys() ^ contents.keys())[:4])
        raise ExportError(f"the adapter's weights do not fit its configuration: {names}")
    for name, tensor in contents.items():
        if not torch.equal(found[name].cpu(), tensor):
            raise ExportError(f"the adapter loads with other weights: {name}")


def _beginning(row: TokenizedRow) -> TokenizedRow:
    """The first tokens of a row; what follows changes nothing in them."""
    return TokenizedRow(row.input_ids[:CHECKED_TOKENS], row.labels[:CHECKED_TOKENS])


@torch.no_grad()
def _check_logits(
    loaded: PeftModel,
    folder: Path,
    rows: Sequence[TokenizedRow],
    trained_logits: TrainedLogits,
    dtype: torch.dtype,
) -> Exported:
    rounding = _ROUNDING[dtype]
    worst = (0.0, math.inf)
    for number, row in enumerate(map(_beginning, rows)):
        ids = torch.from_numpy(row.input_ids).unsqueeze(0).to(loaded.device)
        trained = trained_logits(row).float()
        found = loaded(input_ids=ids).logits[0].float()
        with _rounding_noise(loaded, rounding):
            noise = _rms(loaded(input_ids=ids).logits[0].float() - found)
        difference = _rms(found - trained)
        # The first for what is rounded outside the adapted modules, such as the logits themselves.
        allowed = rounding * _rms(trained) + _NOISE_MARGIN * noise
        # Written so that NaN fails.
        if not difference <= allowed:
            raise ExportError(
                f"the adapter loads, but its logits differ on row {number} by {difference:.3g}; "
                f"at most {allowed:.3g} is rounding"
            )
        worst = max(worst, (difference, allowed), key=lambda pair: pair[0] - pair[1])
    return Exported(folder, len(rows), *worst)


def _rms(values: Tensor) -> float:
    return values.square().mean().sqrt().item()


@contextmanager
def _rounding_noise(model: PeftModel, size: float) -> Iterator[None]:
    """Multiply the outputs of adapted modules by 1 + a number in [-size, size], always the same."""

    def add_noise(_: object, __: object, output: Tensor) -> Tensor:
        # In float32: a product in bfloat16 would round most of the noise away.
        noise = torch.empty(output.shape, device=output.device)
        noise.uniform_(1 - size, 1 + size)
        return noise.mul_(output).to(output.dtype)

    with ExitStack() as stack:
        stack.enter_context(torch.random.fork_rng(_devices(model)))
        torch.manual_seed(0)
        for module in model.modules():
            if isinstance(module, LoraLayer):
                stack.enter_context(module.register_forward_hook(add_noise))
        yield
