"""Renting for a service: its market, its estimates, and what a job's own process is told.

Nothing here imports torch, so that a process which only decides can use it; the process that rents
and trains is `auctune.run.spot.rented_job`.
"""
