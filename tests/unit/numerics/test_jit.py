import importlib.util
from pathlib import Path
from types import ModuleType

import numba
import numpy as np
import pytest

from auctune.numerics.jit import is_compiled, kernel


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


def imported(source: Path) -> ModuleType:
    """A module as a new process imports it."""
    spec = importlib.util.spec_from_file_location("doubles", source)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_a_kernel_counts_as_compiled_where_numba_would_load_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(numba.config, "CACHE_DIR", str(tmp_path / "cache"))
    source = tmp_path / "doubles.py"
    source.write_text(
        "from auctune.numerics.jit import kernel\n"
        "@kernel\ndef double(x): return 2 * x\n"
        "@kernel\ndef triple(x): return 3 * x\n"
    )
    first = imported(source)
    assert not is_compiled(first.double)
    assert first.double(2) == 4
    later = imported(source)
    assert is_compiled(later.double)
    assert not is_compiled(later.triple)
    assert not is_compiled(later.double, later.triple)

    # Not on another kind of processor.
    with monkeypatch.context() as elsewhere:
        elsewhere.setattr(numba.config, "CPU_NAME", "generic")
        assert not is_compiled(later.double)
    # Nor in another installation.
    copied = tmp_path / "elsewhere" / "doubles.py"
    copied.parent.mkdir()
    copied.write_bytes(source.read_bytes())
    assert not is_compiled(imported(copied).double)
    # Nor of other sources.
    source.write_text(source.read_text() + "# changed\n")
    assert not is_compiled(imported(source).double)


def test_a_kernel_whose_code_was_removed_is_not_compiled(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(numba.config, "CACHE_DIR", str(tmp_path / "cache"))
    source = tmp_path / "doubles.py"
    source.write_text(
        "from auctune.numerics.jit import kernel\n@kernel\ndef double(x): return 2 * x\n"
    )
    assert imported(source).double(2) == 4
    for code in (tmp_path / "cache").rglob("*.nbc"):
        code.unlink()
    assert not is_compiled(imported(source).double)
