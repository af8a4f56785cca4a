"""Builds what a first benchmark is of, as its test will: the compiler tells the prototype and what is lacking."""

from __future__ import annotations

import os
import re
import shlex
import time
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from functools import cache, partial
from pathlib import Path
from tempfile import TemporaryDirectory

from pytest_compileiq.cli.first_benchmark import AuthorKnows, FirstBuild
from pytest_compileiq.cli.kernels import HEADERS, KernelInSource, Sources
from pytest_compileiq.errors import BuildError
from pytest_compileiq.machine_code.names import demangled, listed, matching, without_parameters
from pytest_compileiq.machine_code.prototypes import Prototype, prototypes_of
from pytest_compileiq.machine_code.symbols import defined_functions, defined_symbols
from pytest_compileiq.system.printing import complain
from pytest_compileiq.toolchains.base import Place
from pytest_compileiq.toolchains.cc.compilation_database import read_database
from pytest_compileiq.toolchains.cc.compiler import is_cplusplus
from pytest_compileiq.toolchains.cc.marker import Cc
from pytest_compileiq.toolchains.cc.production import output_of
from pytest_compileiq.toolchains.nvidia.markers import Nvcc
from pytest_compileiq.toolchains.nvidia.nvcc import nvcc_command
from pytest_compileiq.toolchains.trial_builds import TrialBuild, trial_build, with_callees, with_flags

_NO_UNDEFINED = "-Wl,--no-undefined"  # of the build here, which has the linker tell what no source defines
_OF_PYTHON = re.compile("_?Py[A-Z_]")  # which the process defines that loads an extension module
_MOST_LISTED = 5  # functions in a sentence
_QUIET_S = 5.0  # without a word
_LIBRARIES = ((), ("-lm",))  # tried in this order
_INTERPOSED = "function body can be overwritten at link time"  # an inlined function that -fPIC lets others replace


def sources_built(like: str, place: Place) -> set[str]:
    """The sources of a build, by every path that each may have in a project."""
    parts = [Path(entry.file).parts[1:] for entry in read_database(like, place).entries]
    return {"/".join(each[start:]) for each in parts for start in range(len(each))}


def _by_objects(like: str | None, place: Place) -> Mapping[str, set[Path]]:
    """Symbol → the sources of the project whose objects, as far as the build of ``like`` has made them, define it."""
    sources: dict[str, set[Path]] = {}
    for entry in read_database(like, place).entries if like else ():
        written = Path(entry.directory, output_of(entry) or f"{Path(entry.file).stem}.o")
        source = Path(os.path.relpath(entry.file, place.rootdir))
        for path in {written, written.with_suffix(".o")}:  # libtool is told to write .lo
            if path.is_file() and (place.rootdir / source).is_file():
                with suppress(BuildError):
                    for symbol in defined_symbols(path, local=False):
                        sources.setdefault(symbol, set()).add(source)
    return sources


def source_of(kernel: KernelInSource, found: Sources, project: Path) -> Path:
    """The file of a function, or of a header's the only source that includes it; raises ``AuthorKnows`` without one."""
    if kernel.file.suffix.lower() not in HEADERS:
        return kernel.file
    including = re.compile(rf'(?m)^\s*#\s*include\s*[<"](?:[^>"\n]*/)?{re.escape(kernel.file.name)}[>"]')
    texts = ((path, (project / path).read_text(encoding="utf-8", errors="replace")) for path in found.sources)
    sources = [path for path, text in texts if including.search(text)]
    own = [path for path in sources if path.stem == kernel.file.stem] or sources
    if len(own) == 1:
        return own[0]
    listed = f"several include it: {', '.join(map(str, own))}" if own else "no source includes it itself"
    raise AuthorKnows(f"{kernel.spelled} is in a header, and {listed}: name FILE::{kernel.name}")


def c_build(kernel: KernelInSource, found: Sources, place: Place, like: str | None) -> tuple[Prototype, FirstBuild]:
    """Build a C or C++ function with sources and flags found in the project; raises ``AuthorKnows`` if that fails."""
    flags: tuple[str, ...] = () if like else ("-O2",)

    def marker(paths: Iterable[Path], *more: str) -> Cc:
        compiler = "g++" if any(is_cplusplus(path.name) for path in paths) else None
        given = shlex.join([*flags, *more])
        return Cc(*(seen(path, place) for path in paths), flags=given, compiler=compiler, like=like)

    def build(path: Path) -> TrialBuild:
        nonlocal flags
        if time.monotonic() - began > _QUIET_S:
            complain(f"building {path}, which {kernel.name} may call")
        new, trial = with_flags(
            lambda new: trial_build(lambda: marker([path], *new).resolve(place), folder),
            lambda trial: _flag_for(trial, found, place),
        )
        flags = (*flags, *new)
        made_here = {name for each in trial.objects for name in defined_functions(each)} if path == source else ()
        if made_here and not any(matching(each, made_here) for each in (kernel.name, last, f"*::{kernel.name}")):
            raise AuthorKnows(
                f"{kernel.spelled}: the build of {source} has no code of its own for it, but for "
                f"{listed(made_here, _MOST_LISTED)}: give one as --function {shlex.quote(f'{source}::NAME')}"
            )
        return trial

    began, last = time.monotonic(), kernel.name.rpartition("::")[2]
    with TemporaryDirectory(prefix="acf-init-") as name:
        folder = Path(name)
        source = source_of(kernel, found, place.rootdir)
        made = cache(lambda: _by_objects(like, place))  # reads all objects of a build, which few functions need
        paths, lacking = with_callees(source, build, lambda symbol: _defining(symbol, found, made()))
        told = "-g", *(() if any(_OF_PYTHON.match(each) for each in lacking) else (_NO_UNDEFINED,))
        for libraries in _LIBRARIES:
            whole = trial_build(partial(marker(paths, *libraries, *told).resolve, place), folder)
            if "undefined reference" not in whole.why_not:
                break
        if whole.result is None:
            raise AuthorKnows(_unbuilt(kernel, whole.why_not, found, like))
        called, named = kernel.name, matching(kernel.name, whole.result.code) or matching(last, whole.result.code)
        if not named and len(named := matching(f"*::{kernel.name}", whole.result.code)) == 1:
            called = without_parameters(demangled(named[0]))
        prototypes = prototypes_of(whole.result.path, last)
    if len(named) != 1 or len(prototypes) != 1:
        what = "several functions of that name" if prototypes else "no code of its own for it"
        raise AuthorKnows(f"{kernel.spelled}: the build of {source} has {what}")
    return prototypes[0], FirstBuild(marker(paths, *libraries), called, len(whole.result.code) > 1)


def cuda_build(kernel: KernelInSource, found: Sources, place: Place, like: str | None) -> tuple[Nvcc, str | None]:
    """Build a CUDA kernel: the marker of its test, and a pattern of the kernel; None where there is no other."""
    if kernel.is_template and kernel.file.suffix.lower() in HEADERS:
        raise AuthorKnows(_to_instantiate(kernel, place))
    source = source_of(kernel, found, place.rootdir)
    made_for = [*nvcc_command(like, source.as_posix(), (), place).architectures] if like else ["sm_90a"]
    given: tuple[str, ...] = () if like else ("-O3",)

    def marker(more: Iterable[str], architectures: Sequence[str]) -> Nvcc:
        arch = architectures[0] if len(architectures) == 1 else architectures
        return Nvcc(seen(source, place), arch=arch, flags=shlex.join([*given, *more]) or None, like=like)

    with TemporaryDirectory(prefix="acf-init-") as folder:

        def build(more: tuple[str, ...]) -> TrialBuild:  # for one of them, since each takes its time
            return trial_build(lambda: marker(more, made_for[-1:]).resolve(place), Path(folder))

        flags, trial = with_flags(build, lambda trial: _flag_for(trial, found, place))
    if trial.result is None:
        raise AuthorKnows(_unbuilt(kernel, trial.why_not, found, like))
    pattern = f"{kernel.name}<*>" if kernel.is_template else kernel.name  # what the source launches is instantiated
    if not (named := matching(pattern, trial.result.code)):
        lacking = f"{kernel.spelled}: the build of {source} has no code of its own for it"
        raise AuthorKnows(_to_instantiate(kernel, place) if kernel.is_template else lacking)
    return marker(flags, made_for), pattern if len(named) < len(trial.result.code) else None


def _to_instantiate(kernel: KernelInSource, place: Place) -> str:
    return (
        f"{kernel.spelled} is a template, and only its author knows what to instantiate: name that in "
        f"Nvcc({seen(kernel.file, place)!r}, instantiate=[...])"
    )


def _flag_for(trial: TrialBuild, found: Sources, place: Place) -> str | None:
    """The flag without which a source does not compile, where the compiler and the project tell it."""
    if _INTERPOSED in trial.why_not:
        return "-fno-semantic-interposition"
    if (lacking := trial.lacking_header) is None:
        return None
    ends = f"/{lacking}"
    having = (f"/{path.as_posix()}" for path in found.headers)
    roots = {path.removesuffix(ends).lstrip("/") for path in having if path.endswith(ends)}
    return f"-I{seen(Path(roots.pop()), place)}" if len(roots) == 1 else None


def _defining(symbol: str, found: Sources, made: Mapping[str, set[Path]]) -> Path | None:
    """The only source that defines a symbol."""
    if symbol in made:
        return next(iter(made[symbol])) if len(made[symbol]) == 1 else None
    spelled = demangled(symbol)
    name = without_parameters(spelled)
    files = {each.file for each in found.kernels if each.name == name and each.language == "c"}
    if "(" not in spelled:
        files = files or found.variables.get(name.rpartition("::")[2], set())
    holder = name.rpartition("::")[2] if " for " in name else name.rpartition("::")[0].rpartition("::")[2]
    sources = [file for file in files or found.classes.get(holder, set()) if file.suffix.lower() not in HEADERS]
    return sources[0] if len(sources) == 1 else None


def seen(path: Path, place: Place) -> str:
    """A path of the project as its tests give it."""
    return Path(os.path.relpath(place.rootdir / path, place.test_dir)).as_posix()


def _unbuilt(kernel: KernelInSource, why: str, found: Sources, like: str | None) -> str:
    if like is not None and "undefined reference" in why:
        remedy = (
            f"run the build of {like} first, whose objects tell which source defines what; a library needs flags=-lNAME"
        )
    elif like is not None:
        remedy = f"its author knows what the commands of {like} lack"
    elif kernel.language == "cuda" and not found.databases:
        remedy = "its author knows the options, for flags= of Nvcc, or the library whose header is not here"
    else:
        remedy = f"name the build that does, by --like {found.databases[0].parent if found.databases else 'BUILD'}"
    lines = why.splitlines()
    said = next((line for line in lines if "error" in line or "undefined reference" in line), lines[0])
    return f"{kernel.spelled} does not build as it is ({said.strip()[:200]}): {remedy}"
