"""A small disk for PostgreSQL, so that it can be full: an ext4 file system in a file.

Mounting takes root on Linux; elsewhere PostgreSQL lives in an ordinary folder, and the fault is
left out.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

IMAGE = "disk.img"


@dataclass(frozen=True, slots=True)
class Disk:
    """PostgreSQL's disk, and why it cannot be filled, if it cannot."""

    path: Path
    why_not: str = ""

    @property
    def image(self) -> Path:
        """The file that stands for the disk: what the file system has written to its device."""
        return self.path.with_name(IMAGE)

    @property
    def filler(self) -> Path:
        return self.path / "filler"

    def fill(self) -> None:
        """Leave no byte free for anybody."""
        with self.filler.open("wb") as file:
            while free := shutil.disk_usage(self.path).free:
                size = os.fstat(file.fileno()).st_size
                try:
                    os.posix_fallocate(file.fileno(), size, min(free, 1 << 26))
                except OSError:
                    if free < 1 << 20:
                        return
                    _fill_slowly(file.fileno())
                    return

    def empty(self) -> None:
        self.filler.unlink(missing_ok=True)


def _fill_slowly(descriptor: int) -> None:
    """Fill what is left: it is too fragmented to be allocated in one piece."""
    os.lseek(descriptor, 0, os.SEEK_END)
    try:
        while True:
            os.write(descriptor, b"\0" * 4096)
    except OSError:
        return


def no_disk(path: Path = Path(), why_not: str = "it has no disk of its own") -> Disk:
    return Disk(path, why_not)


def small_disk(folder: Path, stack: ExitStack, size: str) -> Disk:
    """A disk of this size below ``folder``, unmounted by ``stack``; or the folder itself."""
    path = folder / "disk"
    path.mkdir()
    path.chmod(0o755)
    if sys.platform != "linux" or os.geteuid() != 0:
        return no_disk(path, "mounting a small disk takes root on Linux")
    image = folder / IMAGE
    try:
        _run("truncate", "--size", size, str(image))
        # -m 0: no blocks are kept back for root.
        _run("mkfs.ext4", "-q", "-m", "0", str(image))
        _run("mount", "-o", "loop", str(image), str(path))
    except (OSError, subprocess.CalledProcessError) as failure:
        return no_disk(path, f"no small disk can be mounted here: {failure}")
    stack.callback(image.unlink)
    stack.callback(_run, "umount", "--lazy", str(path))
    path.chmod(0o755)
    return Disk(path)


def _run(*command: str) -> None:
    subprocess.run(command, check=True, capture_output=True)
