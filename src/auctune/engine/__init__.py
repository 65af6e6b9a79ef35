"""Doing what was planned: market files, node processes, the slot clock, vendors, the main job."""
