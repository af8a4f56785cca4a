"""This machine's own state: ``.compileiq/``, beside the store and never committed."""

from __future__ import annotations

from pathlib import Path

from pytest_compileiq.errors import StoreError

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
        raise StoreError(f"{home} cannot be made: {error.strerror}; this machine's own state lies there") from error
    return home
