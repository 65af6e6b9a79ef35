"""Devices are tried by a product whose every number is known."""

from pathlib import Path

import pytest
import torch

from auctune.doctor.checks_system import try_devices
from auctune.train import host
from auctune.train.host import is_intel, try_device, usable_bytes


def test_a_device_whose_product_comes_out_right_has_no_error() -> None:
    assert try_device(torch.device("cpu"))["error"] is None


def test_a_device_whose_tensors_hold_no_numbers_has_one() -> None:
    assert try_device(torch.device("meta"))["error"] is not None


@pytest.mark.slow
def test_devices_are_tried_in_a_process_of_their_own() -> None:
    trials = try_devices()
    assert not isinstance(trials, str)
    assert len(trials) == torch.cuda.device_count()


def test_a_part_of_a_gpus_memory_is_not_sold(monkeypatch: pytest.MonkeyPatch) -> None:
    device = torch.device("cuda:0")
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda _: (60 * 10**9, 80 * 10**9))
    monkeypatch.setattr(torch.cuda, "memory_reserved", lambda _: 10 * 10**9)
    assert usable_bytes(device, 0) == pytest.approx(70e9 - 0.06 * 80e9)


@pytest.mark.parametrize(
    ("facts", "expected"),
    [("vendor_id\t: GenuineIntel\n", True), ("vendor_id\t: AuthenticAMD\n", False), ("", False)],
)
def test_processors_of_intel_are_known_by_their_vendor(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, facts: str, expected: bool
) -> None:
    monkeypatch.setattr(host, "CPU_FACTS", tmp_path / "cpuinfo")
    assert not is_intel()
    (tmp_path / "cpuinfo").write_text(f"processor\t: 0\n{facts}model name\t: Some CPU\n")
    assert is_intel() == expected
