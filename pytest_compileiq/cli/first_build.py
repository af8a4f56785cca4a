"""Builds what a first benchmark is of, as its test will: the compiler tells the prototype and what is lacking."""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Iterable, Sequence
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

from pytest_compileiq.cli.first_benchmark import AuthorKnows, FirstBuild
from pytest_compileiq.cli.kernels import HEADERS, KernelInSource, Sources
from pytest_compileiq.machine_code.names import demangled, matching, without_parameters
from pytest_compileiq.machine_code.prototypes import Prototype, prototypes_of
from pytest_compileiq.toolchains.base import Place
from pytest_compileiq.toolchains.cc.compiler import is_cplusplus
from pytest_compileiq.toolchains.cc.marker import Cc
from pytest_compileiq.toolchains.nvidia.markers import Nvcc
from pytest_compileiq.toolchains.nvidia.nvcc import nvcc_command
from pytest_compileiq.toolchains.trial_builds import TrialBuild, trial_build, with_callees, with_flags

_TOLD_WITH = ("-g", "-Wl,--no-undefined")  # of the build here: prototypes, and what no source defines
_LIBRARIES = ((), ("-lm",))  # tried in this order
_INTERPOSED = "function body can be overwritten at link time"  # an inlined function that -fPIC lets others replace


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
        new, trial = with_flags(
            lambda new: trial_build(lambda: marker([path], *new).resolve(place), folder),
            lambda trial: _flag_for(trial, found, place),
        )
        flags = (*flags, *new)
        return trial

    with TemporaryDirectory(prefix="acf-init-") as name:
        folder = Path(name)
        source = source_of(kernel, found, place.rootdir)
        paths, _ = with_callees(source, build, lambda symbol: _defining(symbol, found))
        for libraries in _LIBRARIES:
            whole = trial_build(partial(marker(paths, *libraries, *_TOLD_WITH).resolve, place), folder)
            if "undefined reference" not in whole.why_not:
                break
        if whole.result is None:
            raise AuthorKnows(_unbuilt(kernel, whole.why_not, found, like))
        last = kernel.name.rpartition("::")[2]
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
    if not made_for:
        raise AuthorKnows(f"{kernel.spelled}: its command in {like} compiles for no real architecture: name one there")
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


def _defining(symbol: str, found: Sources) -> Path | None:
    """The only source that defines a symbol."""
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
    if like is not None:
        remedy = f"its author knows what the commands of {like} lack"
    elif kernel.language == "cuda" and not found.databases:
        remedy = "its author knows the options, for flags= of Nvcc, or the library whose header is not here"
    else:
        remedy = f"name the build that does, by --like {found.databases[0].parent if found.databases else 'BUILD'}"
    lines = why.splitlines()
    said = next((line for line in lines if "error" in line or "undefined reference" in line), lines[0])
    return f"{kernel.spelled} does not build as it is ({said.strip()[:200]}): {remedy}"
