"""Training of many LoRA adapters in one pass over one frozen base model."""
