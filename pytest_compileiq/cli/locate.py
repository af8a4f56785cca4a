"""Finds the project and the store of an ``acf`` call. Imports nothing heavy: ``acf --help`` would pay for it."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from pytest_compileiq.config import NamedOptions
from pytest_compileiq.errors import UserError
from pytest_compileiq.system.project_settings import FILES, settings_of

if TYPE_CHECKING:
    from pytest_compileiq.store.store import Store


def open_store(options: argparse.Namespace) -> Store:
    """The store that the parsed options name, or this project's; raises ``UserError`` without such a directory."""
    from pytest_compileiq.store.store import Store

    root = store_root(options)
    if not root.is_dir():
        raise UserError(f"there is no directory {root}: run pytest --tune, or name it with --acf-dir")
    return Store(root)


def store_root(options: argparse.Namespace) -> Path:
    """The store's path, whether or not it exists."""
    if options.acf_dir is not None:
        return Path(options.acf_dir).absolute()
    project = find_project(Path.cwd())
    return project / (acf_dir(project) or "acf")


def find_project(start: Path) -> Path:
    """The nearest directory from ``start`` upwards that holds a store, or whose files configure one.

    Before there is any store it is the nearest one with settings, where pytest makes the first; else ``start``.
    """
    upwards = (start, *start.parents)
    held = next((directory for directory in upwards if acf_dir(directory) or _holds_store(directory)), None)
    return held or next(filter(configures_pytest, upwards), start)


def acf_dir(directory: Path) -> str | None:
    """The ini key ``acf_dir`` of a project; None if it is not set."""
    settings = settings_of(directory)
    value = settings.values.get("acf_dir") if settings else None
    return value if isinstance(value, str) and value else None


def named_options(options: argparse.Namespace) -> NamedOptions:
    """The options that the settings of the store's project allow in controls files."""
    start = find_project(Path.cwd()) if options.acf_dir is None else store_root(options).parent
    settings = next(filter(None, map(settings_of, (start, *start.parents))), None)
    return settings.named_options() if settings else NamedOptions()


def configures_pytest(directory: Path) -> bool:
    """Whether pytest finds settings of its own in ``directory``."""
    return settings_of(directory) is not None


def _holds_store(directory: Path) -> bool:
    """Whether its ``acf`` is a store: it stands beside settings, or holds metadata, as one without settings does."""
    store = directory / "acf"
    beside_settings = any((directory / name).is_file() for name in FILES)
    return store.is_dir() and (beside_settings or next(store.glob("*/*.toml"), None) is not None)
