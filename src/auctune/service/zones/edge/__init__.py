"""Zones of kind `edge`: jobs that train at sites, where their data are, by an auction of plans."""
