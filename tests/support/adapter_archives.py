"""Archives of small adapters, as results of jobs that nobody has trained."""

import json
from pathlib import Path

import numpy as np
from safetensors.numpy import save_file

from auctune.train.adapter_files import pack_adapter, write_record

MODULE = "base_model.model.layers.0.q_proj"


def pack(folder: Path, base_digest: str = "0" * 64, rank: int = 2) -> bytes:
    """An archive of an adapter on the market's made-up base."""
    source = folder / "adapter"
    source.mkdir()
    config = {"peft_type": "LORA", "r": rank, "lora_alpha": 3, "target_modules": ["q_proj"]}
    (source / "adapter_config.json").write_text(json.dumps(config))
    weights = {
        f"{MODULE}.{name}.weight": np.ones(shape, np.float32)
        for name, shape in (("lora_A", (rank, 8)), ("lora_B", (8, rank)))
    }
    save_file(weights, source / "adapter_model.safetensors")
    write_record(base_digest, source)
    pack_adapter(source, folder / "adapter.zip")
    return (folder / "adapter.zip").read_bytes()
