"""Devices: assumed figures and measured profiles turn a task's batch and rank into s and r."""

import json
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from auctune.domain import InputError
from auctune.files.device_profile import read_profile
from auctune.sim.workloads.device import (
    BATCH_SIZES,
    RANKS,
    AssumedDevice,
    ProfiledDevice,
    read_device,
    shipped_devices,
)

PROFILE = Path(__file__).parents[4] / "examples/first-market/cpu-core.json"
WHERE = st.floats(0, 1, exclude_max=True)
ASSUMED = {
    "origin": "made up",
    "samples": 600,
    "seconds": 60,
    "memory_gb": 16,
    "base_memory_gb": 2,
    "power_kw": 0.2,
    "alone": [0.1, 0.5],
    "adapter_gb": [1, 3],
    "batch_gb": 10,
}


def write(path: Path, **changed: object) -> Path:
    path.write_text(json.dumps({**ASSUMED, **changed}))
    return path


def test_devices_that_are_shipped_say_that_they_are_assumed() -> None:
    devices = shipped_devices()
    assert list(devices) == ["a100", "a40"]
    for device in devices.values():
        assert isinstance(device, AssumedDevice)
        assert device.origin.startswith("Assumed, not measured")
    assert devices["a100"].memory_gb == 80
    assert devices["a40"].compute(600.0) == 16_000


def test_assumed_figures_run_from_the_smallest_to_the_largest(tmp_path: Path) -> None:
    device = read_device(write(tmp_path / "d.json"), None, 512.0)
    assert device.compute(30.0) == 300
    assert device.throughput(30.0, batch=0.0, share=1.0) == pytest.approx(30)
    assert device.throughput(30.0, batch=0.5, share=1.0) == pytest.approx(90)
    assert device.throughput(30.0, batch=0.5, share=0.25) == pytest.approx(75)
    assert device.task_memory_gb(batch=0.5, rank=0.5) == pytest.approx(2 + 3)
    assert device.power_kw == 0.2
    assert read_device(tmp_path / "d.json", 0.7, 512.0).power_kw == 0.7


@given(batch=WHERE, rank=WHERE)
def test_a_profiled_device_is_what_its_profile_says(batch: float, rank: float) -> None:
    profile = read_profile(PROFILE)
    device = ProfiledDevice(profile, 0.05, sample_tokens=40.0)
    size, adapter = BATCH_SIZES[int(batch * 6)], RANKS[int(rank * 5)]
    assert device.throughput(60.0, batch, 0.5) == profile.throughput(
        60.0, 40.0, profile.reference_batch(size * 40), 0.5
    )
    assert device.task_memory_gb(batch, rank) == profile.task_memory_gb(adapter)
    assert device.compute(60.0) == profile.compute(60.0, 40.0)
    assert (device.memory_gb, device.base_memory_gb) == (profile.memory_gb, profile.base_memory_gb)


def test_small_batches_of_a_profiled_device_take_more_of_its_compute() -> None:
    profile = replace(read_profile(PROFILE), adapter_seconds=0.01)
    device = ProfiledDevice(profile, 0.05, sample_tokens=40.0)
    assert device.sample_cost(0.0) == profile.token_cost(profile.reference_batch(40))
    assert device.sample_cost(0.0) > device.sample_cost(0.99)


def test_a_profile_is_told_from_assumed_figures_and_needs_its_power() -> None:
    assert isinstance(read_device(PROFILE, 0.1, 64.0), ProfiledDevice)
    with pytest.raises(InputError, match=r"power_kw: is not set, and .*cpu-core\.json has none"):
        read_device(PROFILE, None, 64.0)


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"samples": 0}, "samples: 0.0; expected a number > 0"),
        ({"samples": "many"}, "samples: 'many'; expected a valid number"),
        ({"origin": " "}, "origin: is empty; expected where the figures come from"),
        ({"alone": [0.5, 0.1]}, "alone: [0.5, 0.1]; expected two shares in (0, 1], ascending"),
        ({"adapter_gb": [-1, 1]}, "adapter_gb: [-1.0, 1.0]; expected two GB >= 0, ascending"),
        ({"price": 3}, "price: is an unknown key"),
    ],
)
def test_malformed_devices_are_named(
    changed: dict[str, object], message: str, tmp_path: Path
) -> None:
    path = write(tmp_path / "d.json", **changed)
    with pytest.raises(InputError) as caught:
        read_device(path, None, 512.0)
    assert str(caught.value).startswith(f"{path}: {message}")


def test_files_that_are_no_devices_are_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="cannot be read"):
        read_device(tmp_path / "none.json", None, 512.0)
    (tmp_path / "d.json").write_text("device")
    with pytest.raises(InputError, match=r"d\.json"):
        read_device(tmp_path / "d.json", None, 512.0)
