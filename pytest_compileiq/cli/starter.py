"""What ``acf init`` writes into any project: attributes for git, settings; and a first benchmark where it is empty."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

STARTER_KERNEL, STARTER_TEST = "acf_starter.c", "test_acf_starter.py"
TEXTCONV = 'git config diff.acf.textconv "acf textconv"'
INI = """\
[pytest]
acf_dir = acf
acf_stale = fail
acf_missing = fail
acf_orphans = warn
acf_no_device = replay
"""
KERNEL = """\
#include <math.h>

void starter_norm(const float *restrict x, const float *restrict y, float *restrict length, int n)
{
    for (int i = 0; i < n; i++)
        length[i] = sqrtf(x[i] * x[i] + y[i] * y[i]);
}
"""
TEST = '''\
"""A first tuned kernel: put your own in its place. pytest --tune searches, pytest holds what was found."""

import ctypes

import numpy as np
import pytest

from pytest_compileiq import Cc


@pytest.mark.tune(Cc("acf_starter.c", flags="-O2 -lm"))
def test_starter(acf):
    x, y = acf.rng.random((2, 65536), dtype=np.float32)
    length = np.zeros_like(x)
    kernel = acf.build().load().starter_norm
    arguments = [array.ctypes.data_as(ctypes.c_void_p) for array in (x, y, length)]
    kernel(*arguments, x.size)
    np.testing.assert_allclose(length, np.hypot(x, y), rtol=1e-5)  # correct before fast
    acf.measure(lambda: kernel(*arguments, x.size), outputs=[length])  # looked at between the samples
    np.testing.assert_allclose(length, np.hypot(x, y), rtol=1e-5)  # and the timed call is correct
'''


@dataclass(frozen=True)
class WrittenFile:
    """One file, and what was done to it: ``written``, ``extended`` or ``left as it is``."""

    path: Path
    what: str


def attributes(acf_dir: str) -> list[str]:
    """The lines of ``.gitattributes``: git alters no byte and shows ``acf textconv``; GitHub folds samples."""
    every, samples = f"{acf_dir}/**", f"{acf_dir}/**/*.csv"
    if any(character.isspace() for character in acf_dir):
        every, samples = json.dumps(every), json.dumps(samples)
    return [f"{every} -text diff=acf", f"{samples} linguist-generated"]


def set_up(project: Path, acf_dir: str, *, with_ini: bool) -> list[WrittenFile]:
    """Write the settings that are missing under ``project``; existing files are extended or left as they are."""
    done = [_extend(project / ".gitattributes", attributes(acf_dir))]
    return [*done, write_new(project / "pytest.ini", INI)] if with_ini else done


def write_starter(tests: Path) -> list[WrittenFile]:
    """Write a first kernel and its benchmark into ``tests``."""
    return [write_new(tests / STARTER_KERNEL, KERNEL), write_new(tests / STARTER_TEST, TEST)]


def _extend(path: Path, lines: list[str]) -> WrittenFile:
    present = path.read_text(encoding="utf-8") if path.exists() else ""
    missing = [line for line in lines if line not in present.splitlines()]
    if not missing:
        return WrittenFile(path, "left as it is")
    if path.is_symlink():
        return WrittenFile(path, f"a link, left as it is; it lacks {' and '.join(map(repr, missing))}")
    path.write_text("\n".join([*present.splitlines(), *missing, ""]), encoding="utf-8")
    return WrittenFile(path, f"added {' and '.join(map(repr, missing))}" if present else "written")


def write_new(path: Path, text: str) -> WrittenFile:
    """Write ``text`` to ``path``, unless something is there."""
    if path.exists() or path.is_symlink():
        return WrittenFile(path, "left as it is")
    path.write_text(text, encoding="utf-8")
    return WrittenFile(path, "written")
