"""What a mechanism remembers, as bytes that can be kept and read back.

    MAGIC, version, SHA-256 of the rest, then an .npz: "tree" is the JSON of all but the arrays, in
    whose places it has {"array": n}; arrays are "0", "1", ...

Nothing in it is code, and nothing is unpickled: bytes from anywhere either are what was written or
are refused.
"""

import hashlib
import io
import json
import zipfile
import zlib
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, TypeAlias

from auctune.domain.errors import InputError

if TYPE_CHECKING:
    from numpy.typing import NDArray

Saved: TypeAlias = Mapping[str, Any]
"""Names to text, numbers, truth values, none, arrays, and lists and mappings of these."""

VERSION = 1
_MAGIC = b"auctune snapshot "
_DIGEST = hashlib.sha256().digest_size
_ARRAY, _TREE = "array", "tree"


def write_snapshot(saved: Saved) -> bytes:
    """Serialize plain values and arrays; equal content gives equal bytes.

    Raises:
        TypeError: for what is neither text, number, array, list nor mapping.
        ValueError: for an array of objects.
    """
    import numpy as np  # only where a snapshot is made: commands of the client need none

    arrays: list[NDArray[Any]] = []
    tree = json.dumps(_without_arrays(saved, arrays)).encode()
    numbered = {str(index): array for index, array in enumerate(arrays)}
    body = io.BytesIO()
    np.savez_compressed(
        body, allow_pickle=False, **{_TREE: np.frombuffer(tree, dtype=np.uint8)}, **numbered
    )
    content = body.getvalue()
    head = _MAGIC + VERSION.to_bytes(2, "big")
    return head + hashlib.sha256(content).digest() + content


def read_snapshot(data: bytes) -> dict[str, Any]:
    """Return the value that `write_snapshot` serialized; sequences are lists.

    Raises:
        InputError: if the bytes are not a snapshot, or are damaged.
    """
    import numpy as np

    start = len(_MAGIC) + 2
    if not data.startswith(_MAGIC) or len(data) < start + _DIGEST:
        raise InputError("snapshot", f"{len(data)} bytes of another format", "a snapshot")
    version = int.from_bytes(data[len(_MAGIC) : start], "big")
    if version != VERSION:
        raise InputError("snapshot", f"is of version {version}", f"version {VERSION}")
    digest, content = data[start : start + _DIGEST], data[start + _DIGEST :]
    if hashlib.sha256(content).digest() != digest:
        raise InputError("snapshot", "is damaged: wrong checksum", "the bytes as written")
    try:
        if not zipfile.is_zipfile(io.BytesIO(content)):
            raise ValueError("not a zip archive")
        with np.load(io.BytesIO(content), allow_pickle=False) as members:
            arrays = {name: members[name] for name in members.files}
        tree: dict[str, Any] = _with_arrays(json.loads(arrays[_TREE].tobytes()), arrays)
    except (ValueError, LookupError, TypeError, EOFError, zipfile.BadZipFile, zlib.error) as error:
        # Its checksum is right, so another program wrote it.
        raise InputError("snapshot", f"cannot be read ({error})", "a snapshot") from None
    return tree


def read_array(saved: Saved, name: str, shape: tuple[int, ...]) -> "NDArray[Any]":
    """Return an array of a snapshot.

    Raises:
        InputError: if it is not one of this shape.
    """
    import numpy as np

    array = saved[name]
    if np.shape(array) != shape or not isinstance(array, np.ndarray):
        raise InputError(f"snapshot.{name}", f"has shape {np.shape(array)}", f"{shape}")
    return array


def read_finite(saved: Saved, name: str, shape: tuple[int, ...] = ()) -> "NDArray[Any]":
    """Return numbers of a snapshot, none of them infinite or NaN.

    Args:
        saved: the snapshot.
        name: of a number or an array in it.
        shape: that it must have; of a number ().

    Raises:
        InputError: if they are not that.
    """
    import numpy as np

    array = read_array(saved, name, shape) if shape else np.asarray(saved[name])
    if array.shape != shape:
        raise InputError(f"snapshot.{name}", f"has shape {array.shape}", "a number")
    if array.dtype.kind not in "iuf" or not np.isfinite(array).all():
        raise InputError(f"snapshot.{name}", "is not finite", "finite numbers")
    return array


def restore(saved: Saved, load: Callable[[Saved], None], save: Callable[[], Saved]) -> None:
    """Load a snapshot; if that fails, load again what `save` returned before.

    Raises:
        InputError: if it is not one that can be loaded.
    """
    before = save()
    try:
        load(saved)
    except (LookupError, TypeError, ValueError, AttributeError) as error:
        load(before)
        if isinstance(error, InputError):
            raise
        expected = "one of the same mechanism"
        raise InputError("snapshot", f"cannot be loaded ({error!r})", expected) from error


def _without_arrays(value: Any, arrays: "list[NDArray[Any]]") -> Any:
    import numpy as np

    if isinstance(value, np.ndarray):
        arrays.append(value)
        return {_ARRAY: len(arrays) - 1}
    if isinstance(value, Mapping):
        assert _ARRAY not in value, "the name stands for an array's place"
        return {name: _without_arrays(part, arrays) for name, part in value.items()}
    if isinstance(value, list | tuple):
        return [_without_arrays(part, arrays) for part in value]
    return value


def _with_arrays(tree: Any, arrays: "Mapping[str, NDArray[Any]]") -> Any:
    if isinstance(tree, dict):
        if _ARRAY in tree:
            return arrays[str(tree[_ARRAY])]
        return {name: _with_arrays(part, arrays) for name, part in tree.items()}
    if isinstance(tree, list):
        return [_with_arrays(part, arrays) for part in tree]
    return tree
