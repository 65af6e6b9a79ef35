"""Files of labelled images, good and bad: nothing of what they claim is believed."""

import io
import pickle
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from auctune.domain import InputError
from auctune.run.data import image_rows
from auctune.run.data.image_rows import ImageFacts, holds_arrays, image_facts, is_npz, read_images
from support.edge_zones import images_file


def written(folder: Path, content: bytes) -> Path:
    path = folder / "file"
    path.write_bytes(content)
    return path


def npy(array: Any, *, pickled: bool = False) -> bytes:
    file = io.BytesIO()
    np.save(file, array, allow_pickle=pickled)
    return file.getvalue()


def archive(packing: int = zipfile.ZIP_DEFLATED, /, **members: bytes) -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", packing) as made:
        for name, content in members.items():
            made.writestr(f"{name}.npy", content)
    return file.getvalue()


def header(shape: str, dtype: str = "'|u1'") -> bytes:
    """An array of nothing, with a header that says what it likes."""
    return headed(f"{{'descr': {dtype}, 'fortran_order': False, 'shape': {shape}, }}")


def headed(text: str) -> bytes:
    """What begins as an array does, and says what it likes."""
    padded = text.ljust(117) + "\n"
    return b"\x93NUMPY\x01\x00" + len(padded).to_bytes(2, "little") + padded.encode()


def test_images_of_one_channel_and_of_several_are_read_as_they_were_written(
    tmp_path: Path,
) -> None:
    grey = np.arange(5 * 64, dtype=np.uint8).reshape(5, 8, 8)
    labels = np.array([3, 0, 1, 2, 3], dtype=np.int16)
    path = written(tmp_path, images_file(images=grey, labels=labels))
    images, found = read_images(path, "file")
    np.testing.assert_array_equal(images[:, 0], grey)
    np.testing.assert_array_equal(found, labels)
    assert found.dtype == np.int64
    colours = np.zeros((2, 3, 9, 12), dtype=np.uint8)
    path = written(tmp_path, images_file(images=colours, labels=np.array([1, 0])))
    assert image_facts(path, "file") == ImageFacts(2, (3, 9, 12), 2)
    assert holds_arrays(path)


def test_rows_of_text_are_no_arrays(tmp_path: Path) -> None:
    assert not holds_arrays(written(tmp_path, b'{"prompt": "a", "completion": "b"}\n'))


class Harmful:
    """What it is unpickled to leaves a trace."""

    def __reduce__(self) -> Any:
        return (exec, ("import support.edge_zones as z; z.UNPICKLED = True",))


BAD = {
    "no archive": b"PK\x03\x04 not really",
    "empty": archive(),
    "one member": archive(images=npy(np.zeros((2, 8, 8), np.uint8))),
    "other members": archive(images=npy(np.zeros(1)), labels=npy(np.zeros(1)), more=b""),
    "pickled": archive(
        images=npy(np.array([Harmful()], dtype=object), pickled=True), labels=npy(np.array([0]))
    ),
    "a pickle": archive(images=pickle.dumps(Harmful()), labels=npy(np.array([0]))),
    "no magic": archive(images=b"nothing", labels=npy(np.array([0]))),
    "too few bytes": archive(images=header("(9, 8, 8)"), labels=npy(np.array([0]))),
    "a huge claim": archive(images=header("(2000000000, 512, 512)"), labels=npy(np.array([0]))),
    "less than none": archive(images=header("(-1, 8, 8)"), labels=npy(np.array([0]))),
    "twice less than none": archive(
        images=header("(-2, -8, 8)") + bytes(128), labels=npy(np.array([0, 1]))
    ),
    "floats": archive(images=npy(np.zeros((2, 8, 8))), labels=npy(np.array([0, 1]))),
    "long words": archive(images=npy(np.zeros((2, 8, 8), np.int64)), labels=npy(np.array([0, 1]))),
    "by columns": archive(
        images=npy(np.asfortranarray(np.zeros((2, 8, 8), np.uint8))), labels=npy(np.array([0, 1]))
    ),
    "no samples": archive(images=npy(np.zeros((0, 8, 8), np.uint8)), labels=npy(np.zeros(0, int))),
    "flat": archive(images=npy(np.zeros((2, 64), np.uint8)), labels=npy(np.array([0, 1]))),
    "tiny": archive(images=npy(np.zeros((2, 4, 4), np.uint8)), labels=npy(np.array([0, 1]))),
    "wide": archive(images=npy(np.zeros((1, 8, 600), np.uint8)), labels=npy(np.array([0]))),
    "too few labels": archive(images=npy(np.zeros((2, 8, 8), np.uint8)), labels=npy(np.array([0]))),
    "labels below 0": archive(
        images=npy(np.zeros((2, 8, 8), np.uint8)), labels=npy(np.array([0, -1]))
    ),
    "labels without end": archive(
        images=npy(np.zeros((2, 8, 8), np.uint8)), labels=npy(np.array([0, 10**6]))
    ),
}

HEADERS = {
    "broken off": headed("{'descr': '|u1', 'shape': (3,"),
    "no words": headed("\0\0{'descr'"),
    "of several lines": headed("  a\n b"),
    "too deep": headed("-" * 9_000 + "1"),
    "of keys that have no order": headed("{1: 2, 'a': 3}"),
    "of a key that is a list": headed("{[]: 2}"),
    "of half a type": header("(2, 8, 8)", "('|u1',)"),
    "of no samples without end": header("(0, 99999999999999999999999)"),
    "of too many axes": header(f"({'1, ' * 70})") + bytes(1),
    "of axes that are no numbers": header("(True, True)") + bytes(1),
}
BAD |= {name: archive(images=text, labels=npy(np.array([0]))) for name, text in HEADERS.items()}
GOOD = {"images": npy(np.zeros((2, 8, 8), np.uint8)), "labels": npy(np.array([0, 1]))}
BAD |= {
    "packed otherwise": archive(zipfile.ZIP_LZMA, **GOOD),
    "a damaged name": archive(**GOOD)
    .replace(b"images.npy", b"\xffmages.npy")
    .replace(
        # Both headers say that names are in UTF-8.
        b"PK\x03\x04\x14\0\0\0",
        b"PK\x03\x04\x14\0\0\x08",
    )
    .replace(b"PK\x01\x02\x14\x03\x14\0\0\0", b"PK\x01\x02\x14\x03\x14\0\0\x08"),
}


@pytest.mark.parametrize("name", BAD)
def test_a_bad_file_is_refused_in_one_line_and_runs_nothing(name: str, tmp_path: Path) -> None:
    import support.edge_zones

    with pytest.raises(InputError) as refused:
        read_images(written(tmp_path, BAD[name]), "training_file")
    assert refused.value.place.startswith("training_file")
    assert len(str(refused.value)) < 400
    assert not hasattr(support.edge_zones, "UNPICKLED")


def test_what_unpacks_to_more_than_there_is_room_for_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(image_rows, "MOST_BYTES", 10_000)
    bomb = archive(images=npy(np.zeros((200, 8, 8), np.uint8)), labels=npy(np.zeros(200, int)))
    assert len(bomb) < 2_000
    with pytest.raises(InputError, match="too large"):
        read_images(written(tmp_path, bomb), "training_file")
    half = bomb[: len(bomb) // 2]
    with pytest.raises(InputError, match="cannot be read"):
        read_images(written(tmp_path, half), "training_file")


def test_an_archive_of_arrays_is_told_from_other_archives(tmp_path: Path) -> None:
    assert is_npz(written(tmp_path, images_file(1)))
    table = io.BytesIO()
    with zipfile.ZipFile(table, "w") as made:
        made.writestr("xl/workbook.xml", "<workbook/>")
    for other in (table.getvalue(), b'{"text": "a row"}\n', b"PK\x03\x04", b""):
        assert not is_npz(written(tmp_path, other))
