"""pytest's settings in a project's files, read as pytest reads them but without importing it, to keep builds fast."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pytest_compileiq.config import OPTIONS_KEY, NamedOptions, why_no_entries
from pytest_compileiq.errors import UserError

FILES = ("pytest.toml", ".pytest.toml", "pytest.ini", ".pytest.ini", "pyproject.toml", "tox.ini", "setup.cfg")
_OWN = ("pytest.toml", ".pytest.toml", "pytest.ini", ".pytest.ini")  # these are pytest's even when they are empty


@dataclass(frozen=True)
class ProjectSettings:
    """The settings of one file, under ``section`` as written there, e.g. ``[pytest]``."""

    file: Path
    section: str
    values: Mapping[str, Any]
    is_native: bool = False  # lists are TOML's, so that a text is never split into one

    def named_options(self) -> NamedOptions:
        """The options that ``acf_options`` allows in controls files; raises ``UserError`` if an entry is none."""
        value = self.values.get(OPTIONS_KEY, [])
        try:
            entries = shlex.split(value) if isinstance(value, str) and not self.is_native else value
        except ValueError as error:
            raise UserError(f"{self.file}: {OPTIONS_KEY} = {value!r}: {error}") from error
        if not isinstance(entries, list) or not all(isinstance(entry, str) for entry in entries):
            raise UserError(
                f'{self.file}: {OPTIONS_KEY} = {value!r}: expected a list of options, as in ["-fno-tree-ter"]'
            )
        if reason := why_no_entries(entries):
            raise UserError(f"{self.file}: {OPTIONS_KEY}: {reason}")
        return self.naming(tuple(entries))

    def naming(self, entries: tuple[str, ...]) -> NamedOptions:
        return NamedOptions(entries, f"{self.section} of {self.file.name}", self.file.suffix == ".toml")


def named_options(entries: tuple[str, ...], file: Path | None) -> NamedOptions:
    """``entries``, which pytest has read, with the place in its ``file`` where further ones belong."""
    settings = settings_in(file) if file else None
    if settings is None and file is not None and file.suffix == ".toml":
        settings = ProjectSettings(file, "[tool.pytest.ini_options]", {})
    return settings.naming(entries) if settings else NamedOptions(entries)


def settings_of(directory: Path) -> ProjectSettings | None:
    """The settings of the first file in ``directory`` that holds any, in pytest's order; None without any."""
    return next(filter(None, (settings_in(directory / name) for name in FILES)), None)


def settings_in(path: Path) -> ProjectSettings | None:
    """The settings in one file; None if it has none or cannot be read, which pytest itself reports when it runs."""
    if not path.is_file():
        return None
    try:
        return _of_toml(path) if path.suffix == ".toml" else _of_ini(path)
    except (OSError, ValueError, TypeError, AttributeError):
        return None


def _of_toml(path: Path) -> ProjectSettings | None:
    import tomli

    content = tomli.loads(path.read_text(encoding="utf-8"))
    if path.name in _OWN:
        return ProjectSettings(path, "[pytest]", dict(content.get("pytest", {})), is_native=True)
    table = dict(content.get("tool", {}).get("pytest", {}))
    if "ini_options" in table:
        return ProjectSettings(path, "[tool.pytest.ini_options]", dict(table["ini_options"]))
    return ProjectSettings(path, "[tool.pytest]", table, is_native=True) if table else None


def _of_ini(path: Path) -> ProjectSettings | None:
    import iniconfig

    section = "tool:pytest" if path.name == "setup.cfg" else "pytest"
    try:
        content = iniconfig.IniConfig(str(path))
    except iniconfig.ParseError:
        return None
    if section not in content and path.name not in _OWN:
        return None
    return ProjectSettings(path, f"[{section}]", dict(content[section].items()) if section in content else {})
