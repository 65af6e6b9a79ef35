"""An adapter's folder as one file: a zip archive whose members are stored as they are.

The same files give the same bytes, on any machine: members in order of their names, one date, and
no compression, whose output differs between releases of zlib. Weights would shrink by a tenth.
"""

import hashlib
import shutil
import stat
import zipfile
from pathlib import Path

from auctune.domain import InputError
from auctune.engine.messages.data import Archived
from auctune.files.atomic import atomic_file

# The first that the format can name.
_DATE = (1980, 1, 1, 0, 0, 0)
_UNIX = 3
_MODE = stat.S_IFREG | 0o644


def archive_folder(folder: Path, target: Path, name: str) -> Archived:
    """Pack all files of a folder.

    Args:
        folder: holds files, and folders of such.
        target: the archive, which appears whole or not at all.
        name: of the folder that comes out when it is unpacked.

    Raises:
        InputError: if there are no files, one of them is a link, or the name is no file name.
    """
    if name in ("", ".", "..") or set(name) & set("/\\\0"):
        raise InputError("name", f"{name!r} is no file name", "a name without folders")
    members = sorted(path for path in folder.rglob("*") if not path.is_dir())
    if not members:
        raise InputError(str(folder), "has no files", "a folder with the files to pack")
    for path in members:
        if path.is_symlink() or not path.is_file():
            raise InputError(str(path), "is no plain file", "plain files only")
    with atomic_file(target) as draft, zipfile.ZipFile(draft, "w", zipfile.ZIP_STORED) as archive:
        for path in members:
            _add(archive, path, f"{name}/{path.relative_to(folder).as_posix()}")
    with target.open("rb") as written:
        digest = hashlib.file_digest(written, "sha256").hexdigest()
    return Archived(target.stat().st_size, digest)


def _add(archive: zipfile.ZipFile, path: Path, name: str) -> None:
    member = zipfile.ZipInfo(name, _DATE)
    member.create_system = _UNIX
    member.external_attr = _MODE << 16
    # Known before it is written, so that only a file that needs the larger format gets it.
    member.file_size = path.stat().st_size
    with path.open("rb") as source, archive.open(member, "w") as place:
        shutil.copyfileobj(source, place, 2**20)
