"""All code that touches torch: fused multi-LoRA training, its data, checkpoints and profiles."""
