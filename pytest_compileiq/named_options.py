"""``acf_options``: what a project's maintainers let into controls files beyond the options that this tool knows."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Sequence
from dataclasses import dataclass

KEY = "acf_options"
_ENTRY = re.compile(r"--?[A-Za-z][A-Za-z0-9_.,+=-]{0,199}")
# One value, and never a second "=", after which some options take a file.
_VALUE = re.compile(r"[A-Za-z0-9_.+][A-Za-z0-9_.+-]{0,39}")


@dataclass(frozen=True)
class NamedOptions:
    """The entries of ``acf_options``: a whole option, or the beginning of one up to its ``=``.

    Attributes:
        entries: as they are written.
        where: the section and the file that set them, or would, for messages.
        as_list: whether a value is written as a list of TOML there.
    """

    entries: tuple[str, ...] = ()
    where: str = "[pytest] of pytest.ini"
    as_list: bool = False

    def hold(self, option: str) -> bool:
        """Whether the maintainers named ``option``."""
        return any(
            option == entry
            or (entry.endswith("=") and option.startswith(entry) and _VALUE.fullmatch(option, len(entry)))
            for entry in self.entries
        )

    def line_for(self, *options: str) -> str:
        """The line of settings that lets ``options`` in, with what is let in already."""
        entries = list(dict.fromkeys([*self.entries, *map(_entry_for, options)]))
        return f"{KEY} = {json.dumps(entries) if self.as_list else shlex.join(entries)}"


def _entry_for(option: str) -> str:
    beginning, equals, value = option.rpartition("=")
    return beginning + equals if equals and _VALUE.fullmatch(value) else option


def why_no_entry(entry: str) -> str | None:
    """Why ``entry`` cannot stand in ``acf_options``, or None."""
    if _ENTRY.fullmatch(entry):
        return None
    return (
        f"{entry!r} is neither an option nor the beginning of one: expected letters, digits and _.,+=- behind a -, "
        "as in -fno-tree-ter or -ftree-parallelize-loops="
    )


def why_no_entries(entries: Sequence[str]) -> str | None:
    """The first reason of ``why_no_entry``."""
    return next(filter(None, map(why_no_entry, entries)), None)
