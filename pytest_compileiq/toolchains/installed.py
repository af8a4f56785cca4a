"""Headers and libraries that Python's packages install: each machine has them elsewhere, and no project holds them.

Like the system's headers they are in no fingerprint, since the machine code shows what a change of them does. And a
recorded command does not say where they lie, so that an artifact means the same in everybody's environment.
"""

from __future__ import annotations

import re
import sysconfig

from pytest_compileiq.toolchains.cc.flags import TAKES_A_PATH, joined_option

_PLACE = r"(?:(?:site|dist)-packages|include/python3\.\d+t?)(?:/|$)"
_INSTALLED = re.compile(rf"(?:^|/){_PLACE}")
_BEFORE_IN_A_PATH = re.compile(rf"^(=?)[^,:]*?(?<=/)(?={_PLACE})")
_BEFORE_IN_A_WORD = re.compile(rf"(?<!\.)/(?:[^,=:]*?/)?(?={_PLACE})")


def is_installed(path: str) -> bool:
    """Whether a file, named relative to the project where it lies inside, belongs to a package or to Python itself."""
    return _INSTALLED.search(path) is not None


def located(word: str) -> str:
    """A recorded word, with where this environment has its packages, and this Python its headers."""
    for home in (sysconfig.get_path("purelib"), sysconfig.get_path("include")):
        if found := _INSTALLED.search(home):
            place = found[0].strip("/")
            word = word.replace(f".../{place}", f"{home[: found.start()]}/{place}")
    return word


def portable(word: str) -> str:
    """``word`` of a command as it is recorded: ``-I/opt/env/lib/python3.12/site-packages/torch/include`` is
    ``-I.../site-packages/torch/include``."""
    option = joined_option(word, TAKES_A_PATH)
    if option is None:
        return _BEFORE_IN_A_WORD.sub(".../", word)
    return option + _BEFORE_IN_A_PATH.sub(r"\1.../", word.removeprefix(option))
