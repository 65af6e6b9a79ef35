"""Packages written into a folder as an installer would leave them."""

from pathlib import Path


def install(
    folder: Path,
    package: str,
    source: str,
    *names: str,
    version: str = "1.0",
    group: str = "auctune.mechanisms",
) -> None:
    """Write a package of one module, whose ENTRY is offered under these names."""
    (folder / f"{package}.py").write_text(source)
    info = folder / f"{package}-{version}.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {package}\nVersion: {version}\n")
    points = "\n".join(f"{name} = {package}:ENTRY" for name in names)
    (info / "entry_points.txt").write_text(f"[{group}]\n{points}\n")
