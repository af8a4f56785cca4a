"""This package's own code as an input of builds: other code may make and read them otherwise."""

from __future__ import annotations

import hashlib
from functools import lru_cache
from importlib.metadata import version
from pathlib import Path


@lru_cache(maxsize=8)
def code_of(*rooms: str) -> str:
    """The digest of what makes and reads builds: the modules of ``toolchains`` itself and in ``rooms`` of it."""
    package = Path(__file__).parent
    files = sorted([*package.glob("*.py"), *(path for room in rooms for path in package.glob(f"{room}/*.py"))])
    content = b"".join(path.read_bytes() for path in files)
    return hashlib.sha256(content + version("pyelftools").encode()).hexdigest()
