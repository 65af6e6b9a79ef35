import ast
import importlib
import importlib.util
import shutil
import tomllib
from pathlib import Path
from types import ModuleType

import numba
import numpy as np
import pytest
from numba.core.dispatcher import Dispatcher

from auctune.numerics import jit
from auctune.numerics.jit import is_compiled, kernel
from auctune.spot.batch.kernel import play_pool
from support.pages import ROOT

SOURCES = ROOT / "src" / "auctune"


def halves(x: float) -> float:
    return 1.0 / x


def test_division_by_zero_in_a_kernel_follows_numpy() -> None:
    compiled = numba.njit(error_model="numpy")(halves)
    assert compiled(0.0) == kernel(halves)(0.0) == np.inf


def test_a_kernel_keeps_its_plain_python() -> None:
    assert kernel(halves).py_func is halves  # type: ignore[attr-defined]


def test_kernels_are_cached_in_a_folder_named_after_their_package_and_its_sources() -> None:
    folder = Path(vars(play_pool)["_cache"].cache_path).parent
    assert folder.parent == jit.kernel_folder()
    package, _, digest = folder.name.partition("-")
    assert package == "spot"
    assert len(digest) == 24
    assert int(digest, 16) >= 0


CHANGED = {
    "timeshare/rollout.py": {"timeshare", "sim"},
    "spot/account.py": {"spot", "sim"},
    "auction/search/cells.py": {"auction", "sim"},
    "sim/timeshare/table_bundles.py": {"sim"},
    "numerics/arrays.py": {"auction", "spot", "edge", "timeshare", "sim"},
    "auction/ledger.py": {"auction", "sim"},
    "auction/pdftsp.py": set(),
}


@pytest.mark.parametrize("changed", CHANGED)
def test_a_change_is_seen_by_the_kernels_that_can_call_it_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, changed: str
) -> None:
    packages = ("auction", "spot", "edge", "timeshare", "sim")
    for name in ("numerics", *packages):
        shutil.copytree(SOURCES / name, tmp_path / name)
    monkeypatch.setattr(jit, "_SOURCES", tmp_path)
    before = {package: jit.source_digest(package) for package in packages}
    with (tmp_path / changed).open("a") as file:
        file.write("# changed\n")
    assert {name for name in packages if jit.source_digest(name) != before[name]} == CHANGED[
        changed
    ]


def test_packages_whose_kernels_are_their_own_never_import_each_other() -> None:
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text())
    (contract,) = (
        one
        for one in settings["tool"]["importlinter"]["contracts"]
        if one["type"] == "independence"
    )
    assert {module.removeprefix("auctune.") for module in contract["modules"]} == jit.INDEPENDENT


def test_kernels_depend_on_nothing_but_the_sources_that_name_their_cache() -> None:
    for path in kernel_files():
        module = importlib.import_module(name_of(path))
        known = {name_of(one) for one in jit.kernel_sources(path.relative_to(SOURCES).parts[0])}
        origins = imported_from(ast.parse(path.read_text()))
        kernels = [one for one in vars(module).values() if isinstance(one, Dispatcher)]
        for function in (one.py_func for one in kernels):
            for name in function.__code__.co_names:
                if function.__module__ == module.__name__ and name in origins:
                    # A module may be imported itself.
                    assert {origins[name], f"{origins[name]}.{name}"} & known, f"{path}: {name}"


def kernel_files() -> list[Path]:
    return [
        path
        for path in SOURCES.rglob("*.py")
        if path.name != "jit.py" and b"@kernel" in path.read_bytes()
    ]


def name_of(path: Path) -> str:
    return ".".join(("auctune", *path.relative_to(SOURCES).with_suffix("").parts))


def imported_from(tree: ast.Module) -> dict[str, str]:
    """Modules of auctune by the names that are imported from them."""
    return {
        alias.asname or alias.name: node.module
        for node in tree.body
        if isinstance(node, ast.ImportFrom) and node.module and node.module.startswith("auctune.")
        for alias in node.names
    }


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
