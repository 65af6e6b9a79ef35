"""Simulation: instance files, the slotted engine, metrics; sees mechanisms through protocols."""
