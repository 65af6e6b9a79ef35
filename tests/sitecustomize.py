"""Runs first in every interpreter that tests start: they share one fork server."""

import os

from support.borrowed_fork_server import borrow, fork_ray_worker, is_ray_worker

if (_place := os.environ.get("AUCTUNE_TESTS_FORK_SERVER")) is not None:
    borrow(_place)
    if is_ray_worker():
        fork_ray_worker()
