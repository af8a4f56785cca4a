"""Third-party C, fetched at run time from pinned source distributions and never kept in this project."""

import hashlib
import subprocess
import sys
import tarfile
import tempfile
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path

FETCHED = Path(__file__).parents[1] / ".compileiq" / "race-sources"


@dataclass(frozen=True)
class Distribution:
    """A source distribution: ``NAME==VERSION``, and the SHA-256 of its archive."""

    requirement: str
    sha256: str

    @property
    def folder(self) -> Path:
        """Where it is unpacked, the archive's own top folder left out."""
        return _unpacked(self)


@cache
def _unpacked(distribution: Distribution) -> Path:
    home = FETCHED / distribution.sha256[:16]
    if not home.exists():
        FETCHED.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=FETCHED) as scratch:
            _unpack(_fetch(distribution, Path(scratch)), Path(scratch) / "unpacked")
            with suppress(OSError):  # where a run beside this one was faster, its folder is as good
                (Path(scratch) / "unpacked").rename(home)
    return next(home.iterdir())


def _fetch(distribution: Distribution, scratch: Path) -> Path:
    """The archive, by pip, which also asks the distribution's own build for its metadata."""
    pip = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--no-binary", ":all:"]
    subprocess.run([*pip, "--dest", str(scratch), distribution.requirement], check=True)
    archive = next(scratch.glob("*.tar.gz"))
    digest = hashlib.sha256(archive.read_bytes()).hexdigest()
    if digest != distribution.sha256:
        raise SystemExit(f"{archive.name}: its SHA-256 is {digest}, and {distribution.sha256} is expected")
    return archive


def _unpack(archive: Path, folder: Path) -> None:
    with tarfile.open(archive) as members:
        members.extractall(folder, filter="data")
