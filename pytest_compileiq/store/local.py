"""This machine's own state: ``.compileiq/``, beside the store and never committed."""

from __future__ import annotations

from pathlib import Path

from pytest_compileiq.errors import StoreError, fault_of

DIRECTORY = ".compileiq"


def local_directory(rootdir: Path) -> Path:
    """``.compileiq/`` of a project; created, with its own ``.gitignore``, if it is missing.

    Raises:
        StoreError: it cannot be created.
    """
    home = rootdir / DIRECTORY
    try:
        home.mkdir(exist_ok=True)
        if not (home / ".gitignore").exists():
            (home / ".gitignore").write_text("*\n", encoding="utf-8")
    except OSError as error:
        said = fault_of(OSError(error.errno, error.strerror))
        raise StoreError(f"this machine's own state cannot be kept: {home} cannot be made: {said}") from error
    return home
