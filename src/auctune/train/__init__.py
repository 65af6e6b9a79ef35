"""All code that touches torch: fused multi-LoRA training, its data, checkpoints and profiles."""

import logging

# PEFT imports bitsandbytes wherever it is installed, whose import warns of kernels from a hub that
# nothing here uses.
logging.getLogger("bitsandbytes.backends.cpu.ops").setLevel(logging.ERROR)
