"""The multi-LoRA auction (pdFTSP) and its baselines."""
