"""The jit policy of all kernels, in one place.

Kernels are compiled lazily at their first call and cached on disk. No fastmath: a decision must
come out the same in every run and replay, to the last bit. Division by zero follows numpy and
raises nothing, since kernels report by status and never by exception.

numba's cache knows a kernel by the source of its own file and by the processor, and misses a change
in a kernel that it calls. So the kernels of a package are cached in a folder that is named after
the digest of all sources that they depend on.
"""

import functools
import hashlib
import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, ParamSpec, TypeVar, cast

import numba
from numba.core import types

P = ParamSpec("P")
R = TypeVar("R")


def compiling(whose: str) -> str:
    """Return what users are told while kernels are compiled."""
    return f"compiling {whose} kernels: once for this installation, a minute or so"


COMPILING = compiling("the auction's")

_SOURCES = Path(__file__).resolve().parent.parent
# Kernels of these packages call their own and those of `numerics`; those of others may call all.
INDEPENDENT = frozenset({"auction", "edge", "spot", "timeshare"})
# Of a package; for branches that are worked on in turn.
_KEPT_CACHES = 8


def kernel(function: Callable[P, R]) -> Callable[P, R]:
    """Compile a function of arrays and scalars; `kernel(f).py_func` is the plain Python."""
    # Of another module numba chooses the place.
    top, _, module = function.__module__.partition(".")
    config: Any = numba.config
    place = config.CACHE_DIR
    try:
        if top == "auctune":
            config.CACHE_DIR = _make_folder(module.partition(".")[0]) or place
        compiled: Any = numba.njit(cache=True, error_model="numpy", nogil=True)(function)
    finally:
        config.CACHE_DIR = place
    template_of, plain_type = compiled.get_call_template, cast(Any, types.unliteral)

    # numba would compile a kernel anew for each constant that another kernel calls it with.
    def template(args: tuple[Any, ...], kws: dict[str, Any]) -> Any:
        plain_kws = {name: plain_type(kind) for name, kind in kws.items()}
        return template_of(tuple(map(plain_type, args)), plain_kws)

    compiled.get_call_template = template
    return cast(Callable[P, R], compiled)


def is_compiled(*kernels: Callable[..., Any]) -> bool:
    """Return whether this environment has compiled kernels before, for arguments of any types.

    If not, the first decision waits for the compiler. The answer is that of numba's own index, as
    numba loads nothing that another release, processor or installation has compiled.
    """
    return all(map(_is_cached, kernels))


def _is_cached(compiled: Any) -> bool:
    cache = compiled._cache
    # Types, processor, bytecode.
    _, *wanted = cache._index_key(None, compiled.targetctx.codegen())
    # Empty unless numba's release and the source are the same.
    index = cache._cache_file._load_index()
    return any(
        key[1:] == tuple(wanted) and Path(cache.cache_path, file).is_file()
        for key, file in index.items()
    )


def kernel_folder() -> Path:
    """Return the folder of all compiled kernels."""
    given = os.environ.get("NUMBA_CACHE_DIR") or os.environ.get("XDG_CACHE_HOME")
    return Path(given or Path.home() / ".cache") / "auctune" / "kernels"


def kernel_sources(package: str) -> Iterator[Path]:
    """Yield the sources that kernels of a package can call, or have constants and tuples from."""
    packages = [package, "numerics"] if package in INDEPENDENT else [""]
    for path in sorted(path for name in packages for path in (_SOURCES / name).rglob("*.py")):
        source = path.read_bytes()
        if path.parent.name == "numerics" or b"@kernel" in source or b"(NamedTuple)" in source:
            yield path


def source_digest(package: str) -> str:
    """Return the digest of the sources that kernels of a package depend on."""
    digest = hashlib.blake2b(digest_size=12)
    for path in kernel_sources(package):
        digest.update(str(path.relative_to(_SOURCES)).encode() + b"\0" + path.read_bytes())
    return digest.hexdigest()


def _folder(package: str) -> Path:
    return kernel_folder() / f"{package}-{source_digest(package)}"


@functools.cache
def _make_folder(package: str) -> str:
    folder = _folder(package)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        os.utime(folder)
        others = kernel_folder().glob(f"{package}-*")
        by_use = sorted(others, key=lambda path: path.stat().st_mtime, reverse=True)
    except OSError:
        # No place to write: numba falls back to its own, or compiles anew in each process.
        return ""
    for stale in by_use[_KEPT_CACHES:]:
        shutil.rmtree(stale, ignore_errors=True)
    return str(folder)
