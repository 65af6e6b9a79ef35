"""Training what was sold: between a zone and its nodes."""
