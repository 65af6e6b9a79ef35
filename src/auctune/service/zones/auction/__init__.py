"""Zones of kind `auction`: owned nodes, sold slot by slot by an admission mechanism."""
