"""Reads the Makefile rules that compilers write for ``-M``."""

from __future__ import annotations

import re
import tempfile
from collections.abc import Sequence
from pathlib import Path

from pytest_compileiq.errors import EnvironmentFault
from pytest_compileiq.system.process import Finished
from pytest_compileiq.toolchains.commands import ask


def preprocessed(argv: Sequence[str], rootdir: Path) -> tuple[Finished, set[str]]:
    """How ``argv`` ended, a compiler's command with one source and an option such as ``-M``, and which files it read.

    The rules are in a file of their own: among what is printed may be warnings, of controls too.

    Raises:
        EnvironmentFault: it did not answer in time, or wrote no such file.
    """
    with tempfile.TemporaryDirectory() as folder:
        rules = Path(folder) / "rules"
        finished = ask([*argv, "-MF", str(rules)], cwd=rootdir)
        if finished.returncode != 0:
            return finished, set()
        if not rules.is_file():
            raise EnvironmentFault(f"{argv[0]} writes no file for -MF: it is a wrapper that leaves options out")
        return finished, prerequisites(rules.read_text(encoding="utf-8", errors="replace"))


def prerequisites(rules: str) -> set[str]:
    """The files that the rules depend on, without the quoting of GNU cpp."""
    names: set[str] = set()
    for rule in rules.replace("\\\n", " ").splitlines():
        words = re.findall(r"(?:\\[ #]|[^\s])+", rule.partition(": ")[2])
        names |= {re.sub(r"\\([ #])", r"\1", word).replace("$$", "$") for word in words}
    return names
