"""Data sets in their published formats, and folders that are not what they should be."""

import gzip
import pickle
import struct
import wave
from pathlib import Path

import numpy as np
import pytest
import torch

from auctune.domain.errors import InputError
from auctune.numerics.rng import stream
from lara_tasks.datasets import (
    BANDS,
    FRAMES,
    LENGTH,
    NOTHING,
    OTHER,
    read_frames,
    read_images,
    read_reviews,
    read_yesno,
)
from lara_tasks.tasks import make_task

PICTURES = stream(1, "pictures").integers(0, 256, (10, 3072)).astype(np.uint8)
CLASSES = [int(number) for number in stream(1, "classes").integers(0, 10, 10)]


def write_cifar_pickles(folder: Path) -> None:
    for batch in range(5):
        rows = slice(2 * batch, 2 * batch + 2)
        content = {b"data": PICTURES[rows], b"labels": CLASSES[rows], b"batch_label": b"x"}
        (folder / f"data_batch_{batch + 1}").write_bytes(pickle.dumps(content, protocol=2))


def write_cifar_records(folder: Path) -> None:
    for batch in range(5):
        rows = range(2 * batch, 2 * batch + 2)
        data = b"".join(bytes([CLASSES[row]]) + PICTURES[row].tobytes() for row in rows)
        (folder / f"data_batch_{batch + 1}.bin").write_bytes(data)


def write_mnist(folder: Path) -> None:
    pictures = PICTURES[:, :784]
    images = struct.pack(">4B3I", 0, 0, 8, 3, 10, 28, 28) + pictures.tobytes()
    (folder / "train-images-idx3-ubyte.gz").write_bytes(gzip.compress(images))
    labels = struct.pack(">4BI", 0, 0, 8, 1, 10) + bytes(CLASSES)
    (folder / "train-labels-idx1-ubyte").write_bytes(labels)


def write_imdb(folder: Path) -> None:
    texts = {"pos": ["Great, great film!<br />It's fun", "fun"], "neg": ["Dull " * 300, "no fun"]}
    for name, reviews in texts.items():
        (folder / "train" / name).mkdir(parents=True)
        for number, text in enumerate(reviews):
            (folder / "train" / name / f"{number}_7.txt").write_text(text)


def write_yesno(folder: Path, rate: int = 8000) -> None:
    for name, seconds in (("0_0_1_0_1_0_1_1", 1.0), ("1_1_1_1_0_0_0_0", 7.0)):
        with wave.open(str(folder / f"{name}.wav"), "wb") as file:
            file.setparams((1, 2, rate, 0, "NONE", ""))
            tone = np.sin(np.arange(int(rate * seconds)) / 3)
            file.writeframes((10_000 * tone).astype("<i2").tobytes())


def write_frames(folder: Path) -> None:
    np.save(folder / "frames.npy", PICTURES[:, :144].reshape(10, 12, 12))
    np.save(folder / "actions.npy", np.array(CLASSES))


@pytest.mark.parametrize("write", [write_cifar_pickles, write_cifar_records])
def test_cifar_10_is_read_in_both_versions(tmp_path: Path, write: object) -> None:
    assert callable(write)
    write(tmp_path)
    images, classes = read_images(tmp_path)
    assert torch.equal(images, torch.from_numpy(PICTURES).view(10, 3, 32, 32))
    assert classes.tolist() == CLASSES


def test_mnist_is_read_gzipped_or_not(tmp_path: Path) -> None:
    write_mnist(tmp_path)
    images, classes = read_images(tmp_path)
    assert torch.equal(images.flatten(1), torch.from_numpy(PICTURES[:, :784].copy()))
    assert images.shape == (10, 1, 28, 28)
    assert classes.tolist() == CLASSES


def test_imdb_is_read_as_numbers_of_words(tmp_path: Path) -> None:
    write_imdb(tmp_path)
    texts, labels = read_reviews(tmp_path)
    assert labels.tolist() == [0, 0, 1, 1]
    assert texts.shape == (4, LENGTH)
    # By frequency: dull 300, fun 3, great 2, then film, it's and no.
    assert texts[0].tolist() == [2] * LENGTH
    assert texts[1, :3].tolist() == [7, 3, NOTHING]
    assert texts[2, :6].tolist() == [4, 4, 5, 6, 3, NOTHING]
    assert OTHER not in texts


def test_yesno_is_read_with_the_words_of_its_names(tmp_path: Path) -> None:
    write_yesno(tmp_path)
    sounds, words = read_yesno(tmp_path)
    assert sounds.shape == (2, FRAMES, BANDS)
    assert words.tolist() == [[0, 0, 1, 0, 1, 0, 1, 1], [1, 1, 1, 1, 0, 0, 0, 0]]
    # A second of sound, then silence; the other one is longer than what is kept.
    assert sounds[0, 40:].max() < sounds[0, :15].max()
    assert sounds[1, 90:].max() > sounds[0, 40:].max()


def test_frames_of_an_expert_are_read(tmp_path: Path) -> None:
    write_frames(tmp_path)
    frames, actions = read_frames(tmp_path)
    assert frames.shape == (10, 1, 12, 12)
    assert actions.tolist() == CLASSES


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "write"),
    [("cnn", write_mnist), ("nlp", write_imdb), ("audio", write_yesno), ("dagger", write_frames)],
)
def test_a_task_on_real_files_trains_and_is_the_same_again(
    tmp_path: Path, kind: str, write: object
) -> None:
    assert callable(write)
    write(tmp_path)
    torch.set_num_threads(1)
    first, again = (make_task(kind, 1, data=str(tmp_path)) for _ in range(2))
    losses = first.losses(15)
    assert losses[-3:].mean() < losses[0]
    assert again.losses(15).tolist() == losses.tolist()


class Evil:
    """A pickle that would run a command."""

    def __reduce__(self) -> tuple[object, ...]:
        return (eval, ("1 + 1",))


def test_a_pickle_that_holds_more_than_arrays_is_not_run(tmp_path: Path) -> None:
    (tmp_path / "data_batch_1").write_bytes(pickle.dumps(Evil()))
    with pytest.raises(InputError, match=r"data_batch_1: cannot be read \(holds builtins.eval\)"):
        read_images(tmp_path)


def test_what_is_wrong_is_named_in_one_line(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="has no train-images-idx3-ubyte; expected CIFAR-10's"):
        read_images(tmp_path)
    with pytest.raises(InputError, match=r"has no train/neg/\*\.txt; expected IMDB's"):
        read_reviews(tmp_path)
    with pytest.raises(InputError, match="has no recordings; expected Yesno's"):
        read_yesno(tmp_path)
    with pytest.raises(InputError, match=r"frames\.npy: cannot be read"):
        read_frames(tmp_path)


def test_files_that_are_cut_or_of_another_shape_are_refused(tmp_path: Path) -> None:
    write_cifar_records(tmp_path)
    (tmp_path / "data_batch_3.bin").write_bytes(b"\0" * 3072)
    with pytest.raises(InputError, match=r"data_batch_3\.bin: has 3072 bytes"):
        read_images(tmp_path)
    (tmp_path / "data_batch_3.bin").write_bytes(b"\x0b" + b"\0" * 3072)
    with pytest.raises(InputError, match=r"data_batch_3\.bin: has classes beyond 0 to 9"):
        read_images(tmp_path)
    (tmp_path / "data_batch_3.bin").unlink()
    with pytest.raises(InputError, match=r"data_batch_3\.bin: cannot be read"):
        read_images(tmp_path)


def test_damaged_mnist_is_refused(tmp_path: Path) -> None:
    write_mnist(tmp_path)
    path = tmp_path / "train-labels-idx1-ubyte"
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(InputError, match="has 9 bytes of data; expected 10"):
        read_images(tmp_path)
    path = tmp_path / "train-images-idx3-ubyte.gz"
    path.write_bytes(path.read_bytes()[:-20])
    with pytest.raises(InputError, match="is damaged gzip"):
        read_images(tmp_path)


def test_recordings_and_frames_of_another_kind_are_refused(tmp_path: Path) -> None:
    write_yesno(tmp_path, rate=16000)
    with pytest.raises(InputError, match="has 16000 Hz, 1 channels, 16 bits"):
        read_yesno(tmp_path)
    write_frames(tmp_path)
    np.save(tmp_path / "actions.npy", np.full(10, 18))
    with pytest.raises(InputError, match=r"actions\.npy: .* expected 10 whole numbers of 0 to 17"):
        read_frames(tmp_path)
