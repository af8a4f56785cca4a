"""``acf init``: settings, and a first benchmark: of a named function, of the only one, or the starter's."""

from __future__ import annotations

import json
import os
import shlex
from collections.abc import Iterator
from pathlib import Path

from pytest_compileiq.cli.first_benchmark import AuthorKnows, c_benchmark, cuda_benchmark, triton_benchmark
from pytest_compileiq.cli.first_build import c_build, cuda_build, seen, sources_built
from pytest_compileiq.cli.kernels import HEADERS, KernelInSource, Sources, look
from pytest_compileiq.errors import EnvironmentFault, UserError
from pytest_compileiq.spelling import did_you_mean, first_of, quantity, test_name
from pytest_compileiq.system.project_settings import FILES, settings_of
from pytest_compileiq.toolchains.base import Place

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


def attributes(acf_dir: str) -> list[str]:
    """The lines of ``.gitattributes``: git alters no byte and shows ``acf textconv``; GitHub folds samples."""
    every, samples = f"{acf_dir}/**", f"{acf_dir}/**/*.csv"
    if any(character.isspace() for character in acf_dir):
        every, samples = json.dumps(every), json.dumps(samples)
    return [f"{every} -text diff=acf", f"{samples} linguist-generated"]


def set_up(project: Path, acf_dir: str, *, with_ini: bool) -> dict[str, str]:
    """Write missing settings under ``project``, replacing nothing; returns file → its state in words."""
    done = {".gitattributes": _extend(project / ".gitattributes", attributes(acf_dir))}
    return {**done, "pytest.ini": write_new(project / "pytest.ini", INI)} if with_ini else done


def _extend(path: Path, lines: list[str]) -> str:
    present = path.read_text(encoding="utf-8") if path.exists() else ""
    missing = [line for line in lines if line not in present.splitlines()]
    if not missing:
        return "left as it is"
    if path.is_symlink():
        return f"a link, left as it is; it lacks {' and '.join(map(repr, missing))}"
    path.write_text("\n".join([*present.splitlines(), *missing, ""]), encoding="utf-8")
    return f"added {' and '.join(map(repr, missing))}" if present else "written"


def write_new(path: Path, text: str) -> str:
    """Write ``text`` to ``path``, unless something is there; returns ``written`` or ``left as it is``."""
    if path.exists() or path.is_symlink():
        return "left as it is"
    path.write_text(text, encoding="utf-8")
    return "written"


_MOST_LISTED = 30


def look_and_write(project: Path, function: str | None, like: Path | None) -> Iterator[str]:
    """Write a benchmark into the project's test directory, or nothing; gives lines to print."""
    found = look(project, frozenset({STARTER_KERNEL, STARTER_TEST, "LICENSE", "README.md", *FILES}))
    tests = tests_of(project)
    if function is None and found.is_empty:
        for name, text in ((STARTER_KERNEL, KERNEL), (STARTER_TEST, TEST)):
            yield f"{(tests / name).relative_to(project)}: {write_new(tests / name, text)}"
        yield from _next(os.path.relpath(tests / STARTER_TEST, project))
        return
    if like is not None:
        built = sources_built(seen(like, Place(tests, project)), Place(tests, project))
        found.kernels = [
            each for each in found.kernels if each.file.suffix.lower() in HEADERS or each.file.as_posix() in built
        ]
    if function is None and (found.benchmarks or len(found.kernels) != 1):
        yield from _listed(found, like)
        return
    kernel = found.kernels[0] if function is None else _chosen(found, function, like)
    path = tests / f"test_acf_{test_name(kernel.name).removeprefix('test_')}.py"
    present = [path.relative_to(project)] if path.exists() or path.is_symlink() else found.benchmarks
    if first := next((each for each in present if each.name == path.name), None):
        yield f"{first} exists and is left as it is; move it away to have another benchmark of {kernel.spelled} written"
        yield from _next(str(first))
        return
    try:
        text, lacking = _text(kernel, found, Place(tests, project), like)
    except AuthorKnows:
        if function is not None:
            raise
        yield from _listed(found, like)  # the only function, which nobody asked for
        return
    yield f"{path.relative_to(project)}: {write_new(path, text)}"
    if lacking:
        yield f"in it, {lacking}"
    yield from _next(os.path.relpath(path, project), is_complete=not lacking)


def tests_of(project: Path) -> Path:
    """The directory of the project's tests: the first of pytest's ``testpaths``, ``tests`` or ``test``, else itself."""
    settings = settings_of(project)
    given = settings.values.get("testpaths", []) if settings else []
    named = given.split() if isinstance(given, str) else [each for each in given if isinstance(each, str)]
    inside = (project / name for name in (*named, "tests", "test"))
    return next(
        (each for each in inside if each.is_dir() and each.resolve().is_relative_to(project.resolve())), project
    )


def _text(kernel: KernelInSource, found: Sources, place: Place, like: Path | None) -> tuple[str, str | None]:
    build = None if like is None else seen(like, place)
    if kernel.language == "triton":
        return triton_benchmark(kernel, seen(kernel.file, place)), None
    if kernel.language == "cuda":
        try:
            return cuda_benchmark(kernel.name, *cuda_build(kernel, found, place, build)), None
        except EnvironmentFault as error:
            raise UserError(f"{kernel.spelled}: {error}") from error
    return c_benchmark(*c_build(kernel, found, place, build))


def _chosen(found: Sources, function: str, like: Path | None) -> KernelInSource:
    named = [each for each in found.kernels if function in (each.spelled, each.name, each.name.rpartition("::")[2])]
    if len({each.file for each in named}) > 1:  # a source before the headers that define it again
        named = [each for each in named if each.file.suffix.lower() not in HEADERS] or named
    if len(named) == 1:
        return named[0]
    if named:
        raise UserError(f"--function {function}: several are called so: {', '.join(each.spelled for each in named)}")
    path, _, last = function.partition("::")
    if last and Path(path) in found.sources:  # a macro may make it, or a header that it includes
        return KernelInSource(Path(path), last, "cuda" if path.endswith(".cu") else "c")
    if last and Path(path) in found.cython:
        raise AuthorKnows(_CYTHON)
    holder = function.rpartition("::")[0].rpartition("::")[2]
    if len(files := found.classes.get(holder, set())) == 1:
        return KernelInSource(min(files), function, "c")
    near = did_you_mean(function, {each.name for each in found.kernels})
    where, listing = ("here", "") if like is None else (f"of --like {like}", f" --like {shlex.quote(str(like))}")
    raise UserError(
        f"--function {function}: no source {where} defines it{near}; acf init{listing} lists what they define"
    )


_CYTHON = (
    "functions of Cython take Python's objects, so only a program that calls them knows their arguments: "
    "acf capture -- python PROGRAM records the C functions that it spends its time in"
)


def _listed(found: Sources, like: Path | None) -> Iterator[str]:
    shown = sorted(found.kernels, key=lambda each: each.file.suffix.lower() in HEADERS)
    if shown:
        yield f"{quantity(len(shown), 'function')} found:"
        yield from (f"  {each}" for each in first_of([each.spelled for each in shown], _MOST_LISTED))
    elif found.sources or found.headers:
        yield "none of the C, C++ and CUDA sources here defines a function that a test could call by its name"
    elif not found.cython:
        yield "no source in C, C++ or CUDA and no kernel of Triton here, so there is nothing to write a benchmark of"
    if found.databases and like is None:
        yield f"builds found: {', '.join(f'--like {shlex.quote(str(each.parent))}' for each in found.databases)}"
    if found.cython:
        yield f"{quantity(len(found.cython), 'file')} of Cython: {_CYTHON}"
    if found.modules:
        counted = quantity(len(found.modules), "extension module")
        yield f"{counted}, of which acf init --function writes a test that calls what Python sees:"
        yield from (f"  {each}" for each in first_of(found.modules, _MOST_LISTED))
    if not found.is_whole:
        yield "not all files were looked at, since there are too many: run acf init in the directory of a part"
    if shown:
        build = [] if like is None else ["--like", str(like)]
        command = shlex.join(["acf", "init", "--function", shown[0].spelled, *build])
        yield from ("Next: choose one, as in", f"  {command}")


def _next(test: str, *, is_complete: bool = True) -> Iterator[str]:
    first = "try the body" if is_complete else "complete its call, try the body"
    yield from ("", f"Next: {first}, then tune it:")
    yield from (f"  {command} {shlex.quote(test)}" for command in ("pytest --acf-check=off", "pytest --tune"))
