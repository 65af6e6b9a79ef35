from pathlib import Path

import numba
import numpy as np
import pytest

from auctune.numerics.jit import kernel, kernels_are_compiled


def halves(x: float) -> float:
    return 1.0 / x


def test_division_by_zero_in_a_kernel_follows_numpy() -> None:
    compiled = numba.njit(error_model="numpy")(halves)
    assert compiled(0.0) == kernel(halves)(0.0) == np.inf


def test_a_kernel_keeps_its_plain_python() -> None:
    assert kernel(halves).py_func is halves  # type: ignore[attr-defined]


def test_kernels_are_cached_in_a_folder_named_after_the_sources() -> None:
    folder = Path(vars(numba.config)["CACHE_DIR"])
    assert len(folder.name) == 24
    assert int(folder.name, 16) >= 0


def test_a_kernel_counts_as_compiled_once_its_own_file_is_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path))
    assert not kernels_are_compiled()
    folder = tmp_path / "auctune" / Path(vars(numba.config)["CACHE_DIR"]).name / "batch"
    folder.mkdir(parents=True)
    (folder / "kernel.play_pool-230.py311.nbi").touch()
    assert kernels_are_compiled()
    assert kernels_are_compiled("play_pool")
    assert not kernels_are_compiled("play")
