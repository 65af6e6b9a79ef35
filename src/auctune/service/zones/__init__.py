"""Zones: each a base model, its supply and one way to sell it, decided on by one thread.

`core` has what zones of all kinds share; each kind has a folder of its own, and is found by its
name in `auctune.service.zones.kinds`.
"""
