"""`auctune profile`: a device measured with a base, into a file."""

import os
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path

import torch
from rich.console import Console
from rich.table import Table

from auctune.domain import InputError
from auctune.engine.base_place import base_cache
from auctune.engine.console import RunConsole
from auctune.engine.runtime.devices import OnLost, node_devices
from auctune.engine.runtime.nodes import NodeSettings
from auctune.files.device_profile import Profile, write_profile
from auctune.train.base import load_base
from auctune.train.multilora.device_group import DeviceLostError
from auctune.train.profile import Effort, measure_profile
from auctune.train.tiny import tiny_folder

_STUCK_SECONDS = 10.0


def measure_to_file(
    base_name: str,
    out: Path,
    device: str,
    dtype: str,
    threads: int | None,
    *,
    seconds: float,
    backend: str,
    gradient_checkpointing: int,
    num_devices: int,
    console: Console,
) -> Profile:
    """Measure, write the profile, and show what it says.

    Raises:
        InputError: for an unknown base or device, or a place that cannot be written to.
        DeviceLostError: if the process of a further device has ended.
        MeasurementError: if not even the smallest pass can be run.
    """
    if threads is not None and threads < 1:
        raise InputError("--threads", f"{threads}", "a whole number >= 1")
    torch.set_num_threads(threads or max(1, torch.get_num_threads() // num_devices))
    if not out.parent.is_dir() or out.is_dir():
        raise InputError(f"--out {out}", "cannot be written", "a file in a folder that exists")
    with RunConsole(console) as shown:
        if base_name == "tiny":
            what = "building the tiny base (once on this machine)"
            tiny_folder(base_cache(), progress=lambda share: shown.preparing(what, share))
        shown.preparing(f"loading the base {base_name}", 0.0)
        load = partial(load_base, base_name, cache=base_cache(), device=device, dtype=dtype)
        settings = NodeSettings(
            base_name,
            str(base_cache()),
            device=device,
            num_devices=num_devices,
            dtype=dtype,
            threads=torch.get_num_threads(),
            backend=backend,
            gradient_checkpointing=gradient_checkpointing,
        )
        with _exit_if_stuck() as on_lost, node_devices(settings, on_lost, load) as (base, devices):
            profile = measure_profile(
                base,
                effort=Effort(seconds=seconds),
                backend=backend,
                gradient_checkpointing=gradient_checkpointing,
                devices=devices,
                report=shown.preparing,
            )
    write_profile(profile, out)
    console.print(_table(profile))
    for warning in profile.warnings():
        shown.noted(warning)
    console.print(f"profile: {out}", soft_wrap=True)
    return profile


@contextmanager
def _exit_if_stuck() -> Iterator[OnLost]:
    """Yield a callback that ends this process, unless the block ends soon after it was called.

    What does not answer raises an error in the block, but a pass on a GPU waits for a process that
    has ended until NCCL's timeout.
    """
    is_over = threading.Event()

    def watch(error: DeviceLostError) -> None:
        if not is_over.wait(_STUCK_SECONDS):
            print(f"auctune: {error}", file=sys.stderr, flush=True)
            os._exit(1)

    try:
        yield lambda error: threading.Thread(target=watch, args=(error,), daemon=True).start()
    finally:
        is_over.set()


def _table(profile: Profile) -> Table:
    table = Table(title=f"{profile.origin.base_name} on {profile.origin.device_name}")
    table.add_column("what")
    table.add_column("measured", justify="right")
    passes = f"{1e3 * profile.step_seconds:.2f} ms + {1e6 * profile.token_seconds:.1f} us a token"
    large = replace(profile.reference_batch(), parameters=8 * profile.reference_batch().parameters)
    rows = (
        ("time of a pass", f"{passes} + {1e3 * profile.adapter_seconds:.2f} ms an adapter"),
        ("speed, less margin", f"{profile.tokens_per_second():,.0f} tokens/s"),
        ("micro-batch", f"{profile.micro_batch_tokens} tokens"),
        ("margin", f"{profile.margin:.0%}"),
        ("base, with activations", f"{profile.base_memory_gb:.3f} GB"),
        ("memory for base and tasks", f"{profile.memory_gb:.1f} GB"),
        ("task of rank 8", f"{1e3 * profile.task_memory_gb(8):.3f} MB"),
        ("cost of a token of rank 64, of rank 8", f"{profile.token_cost(large):.2f}"),
        ("task in a slot (load, checkpoint)", f"{1e3 * profile.task_overhead_seconds:.0f} ms"),
    )
    for what, measured in rows:
        table.add_row(what, measured)
    return table
