"""Which project, and which store, an ``acf`` call is about. Imports nothing heavy: ``acf --help`` pays for it."""

from __future__ import annotations

import argparse
import configparser
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pytest_compileiq.errors import UserError
from pytest_compileiq.files import PROJECT_FILES

if TYPE_CHECKING:
    from pytest_compileiq.store import Store


def open_store(options: argparse.Namespace) -> Store:
    """The store that the parsed options name, or this project's.

    Raises:
        UserError: there is no such directory.
    """
    from pytest_compileiq.store import Store

    root = store_root(options)
    if not root.is_dir():
        raise UserError(f"there is no directory {root}: run pytest --tune, or name it with --acf-dir")
    return Store(root)


def store_root(options: argparse.Namespace) -> Path:
    """Where the store lies, whether it is there or not."""
    if options.acf_dir is not None:
        return Path(options.acf_dir).absolute()
    project = find_project(Path.cwd())
    return project / (acf_dir(project) or "acf")


def find_project(start: Path) -> Path:
    """The nearest directory above ``start`` whose files configure a store, or that holds one; else ``start``."""
    for directory in (start, *start.parents):
        if acf_dir(directory) or (_configured(directory) and (directory / "acf").is_dir()):
            return directory
    return start


def acf_dir(directory: Path) -> str | None:
    """The ini key ``acf_dir`` of a project, or None where it is not set."""
    for name in PROJECT_FILES:
        value = (_ini(directory / name) or {}).get("acf_dir")
        if isinstance(value, str) and value:
            return value
    return None


def configures_pytest(directory: Path) -> bool:
    """Whether pytest finds settings of its own in ``directory``."""
    return (directory / "pytest.ini").is_file() or any(_ini(directory / name) for name in PROJECT_FILES)


def _configured(directory: Path) -> bool:
    return any((directory / name).is_file() for name in PROJECT_FILES)


def _ini(path: Path) -> dict[str, Any] | None:
    """pytest's settings in one file, or None; a file that pytest itself cannot read says so when pytest runs."""
    if not path.is_file():
        return None
    try:
        if path.suffix == ".toml":
            import tomli

            options = tomli.loads(path.read_text(encoding="utf-8")).get("tool", {}).get("pytest", {})
            return dict(options.get("ini_options", options))
        parser = configparser.ConfigParser(interpolation=None)
        parser.read(path, encoding="utf-8")
        section = "tool:pytest" if path.name == "setup.cfg" else "pytest"
        return dict(parser[section]) if parser.has_section(section) else None
    except (OSError, ValueError, TypeError, configparser.Error, AttributeError):
        return None
