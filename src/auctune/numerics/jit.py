"""The jit policy of all kernels, in one place.

Kernels are compiled lazily at their first call and cached on disk. No fastmath: a decision must
come out the same in every run and replay, to the last bit. Division by zero follows numpy and
raises nothing, since kernels report by status and never by exception.

numba's cache knows a kernel by its own file's time stamp and misses a change in a kernel that it
calls. So the cache lies in a folder named after the digest of all sources of this package.
"""

import hashlib
import os
import shutil
from collections.abc import Callable
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

_PACKAGE = Path(__file__).resolve().parent.parent
_KEPT_CACHES = 8


def kernel(function: Callable[P, R]) -> Callable[P, R]:
    """Compile a function of arrays and scalars; `kernel(f).py_func` is the plain Python."""
    compiled: Any = numba.njit(cache=True, error_model="numpy", nogil=True)(function)
    template_of, plain_type = compiled.get_call_template, cast(Any, types.unliteral)

    # numba would compile a kernel anew for each constant that another kernel calls it with.
    def template(args: tuple[Any, ...], kws: dict[str, Any]) -> Any:
        plain_kws = {name: plain_type(kind) for name, kind in kws.items()}
        return template_of(tuple(map(plain_type, args)), plain_kws)

    compiled.get_call_template = template
    return cast(Callable[P, R], compiled)


def is_compiled(*kernels: Callable[..., Any]) -> bool:
    """Return whether this environment has compiled kernels before, for arguments of any types.

    If not, the first decision waits for the compiler, which users should be told. numba is asked,
    as it loads nothing that another release, processor or installation has compiled.
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
    """Where compiled kernels of these sources are kept; it is there if it could be made."""
    return _cache_root() / _source_digest()


def _cache_root() -> Path:
    given = os.environ.get("NUMBA_CACHE_DIR")
    if given:
        return Path(given) / "auctune"
    user = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(user) / "auctune" / "kernels"


def _source_digest() -> str:
    digest = hashlib.blake2b(digest_size=12)
    for path in sorted(_PACKAGE.rglob("*.py")):
        source = path.read_bytes()
        if b"@kernel" in source:
            digest.update(str(path.relative_to(_PACKAGE)).encode() + b"\0" + source)
    return digest.hexdigest()


def _choose_cache() -> None:
    root, folder = _cache_root(), kernel_folder()
    try:
        folder.mkdir(parents=True, exist_ok=True)
        os.utime(folder)
        by_use = sorted(root.iterdir(), key=lambda path: path.stat().st_mtime, reverse=True)
    except OSError:
        # No place to write: numba falls back to its own, or compiles anew in each process.
        return
    for stale in by_use[_KEPT_CACHES:]:
        shutil.rmtree(stale, ignore_errors=True)
    config: Any = numba.config
    config.CACHE_DIR = str(folder)


_choose_cache()
