"""What this machine has, what works with it, and the one command for each thing missing."""

from __future__ import annotations

import importlib.metadata
import json
import os
import platform
import re
import shutil
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from pytest_compileiq import __version__
from pytest_compileiq.errors import EnvironmentFault, install
from pytest_compileiq.space import SEARCH_SPACES_OF, SEARCH_SPACES_TAG
from pytest_compileiq.spelling import quantity
from pytest_compileiq.system.files import is_in_container, is_lock_dir_given, lock_directory
from pytest_compileiq.timing.gpu_watch import SHARED
from pytest_compileiq.timing.registry import find_device, find_device_or_none
from pytest_compileiq.toolchains.base import Place
from pytest_compileiq.toolchains.cc.compiler import find_compiler
from pytest_compileiq.toolchains.nvidia.tools import CONTROLS_SINCE, INSTALL, installed, pinned

_IN_LINE = re.compile(r"([a-z]+)(\d+(?:\.\d+)*)")
_SPACES = "CompileIQ's search spaces"
_EXTRAS = {
    "cuda-core": "cuda",
    "cuda-bindings": "cuda",
    "nvidia-ml-py": "cuda",
    "compileiq": "compileiq",
    "triton": "triton",
    "optuna": "optuna",
    "mlflow": "mlflow",
}


@dataclass(frozen=True)
class Examined:
    """One thing looked for, its version and place or nothing, and the command that installs it or a newer one."""

    section: str  # project, host, compiler, spaces, device, package or works
    name: str
    found: str  # in words; empty if nothing was
    remedy: str = ""


def examine() -> list[Examined]:
    """Look for everything this package can use; never raises for what is missing."""
    findings = [*_host_and_compilers(), *_cuda_compilers(), _search_spaces(), *_devices()]
    for name, extra in _EXTRAS.items():
        try:
            findings.append(Examined("package", name, importlib.metadata.version(name)))
        except importlib.metadata.PackageNotFoundError:
            findings.append(Examined("package", name, "", install(extra)))
    return [*findings, *_what_works(findings)]


def of_the_project(lines: Mapping[str, int], findings: Sequence[Examined]) -> Iterator[Examined]:
    """Whether this machine has the compilers of a project's artifacts; ``lines``: ``gcc12`` → how many are of it."""
    by_name: dict[str, list[Examined]] = {}
    for each in findings:
        by_name.setdefault(each.name, []).append(each)
    for line, count in sorted(lines.items()):
        known = {name: version for name, version in _IN_LINE.findall(line) if name in by_name}
        lacking = {
            name: version
            for name, version in known.items()
            if not any(f"{each.found.split(' ')[0]}.".startswith(f"{version}.") for each in by_name[name])
        }
        remedy = next((each.remedy for name in lacking for each in by_name[name] if each.remedy), "")
        missing = ", ".join(map(" ".join, lacking.items()))
        told = f"not here: {missing}" if missing else "here" if known else "not known to this command"
        yield Examined("project", line, f"{quantity(count, 'artifact')}: {told}", remedy)


def _host_and_compilers() -> Iterator[Examined]:
    yield Examined("host", "pytest-compileiq", f"{__version__}, Python {platform.python_version()}, {sys.executable}")
    for name in ("gcc", "clang"):
        try:
            compiler = find_compiler(name, Place(Path.cwd(), Path.cwd()))
            yield Examined("compiler", name, f"{compiler.version} at {compiler.program}")
        except EnvironmentFault:
            yield Examined("compiler", name, "", f"install {name} with your system's package manager")
    if program := shutil.which("objdump"):
        found = f"at {program}: a timed search reads machine code, instructions are counted"
        yield Examined("compiler", "objdump", found)
    else:
        yield Examined("compiler", "objdump", "", "install binutils with your system's package manager")


def _cuda_compilers() -> Iterator[Examined]:
    for name in ("ptxas", "nvcc"):
        try:
            tools = list(installed(name))
        except EnvironmentFault as error:
            yield Examined("compiler", name, str(error), INSTALL)
            continue
        for tool in tools[:1]:
            since = ".".join(map(str, CONTROLS_SINCE))
            remark = "takes ACFs" if tool.takes_controls else f"takes no ACF, which needs {since}"
            found = f"{tool.version} at {tool.program} ({tool.origin}): {remark}"
            yield Examined("compiler", name, found, "" if tool.takes_controls else INSTALL)
        for tool in tools[1:]:
            yield Examined("compiler", name, f"{tool.version} at {tool.program} ({tool.origin}): not the one taken")
        if not tools:
            yield Examined("compiler", name, "", INSTALL)


def _search_spaces() -> Examined:
    directory = os.environ.get("CIQ_SEARCH_SPACES_DIR")
    if not directory:
        return _for_this_ptxas(f"fetched when first needed, release {SEARCH_SPACES_TAG}")
    try:
        manifest = json.loads((Path(directory) / "manifest.json").read_text(encoding="utf-8"))
        entries = manifest["entries"]
        held = ", ".join(f"{entry['compiler']} {entry['compiler_version']} {entry['variant']}" for entry in entries)
        return _for_this_ptxas(f"{held} in {directory}")
    except (OSError, ValueError, KeyError, TypeError):
        remedy = f"put manifest.json and the files of the release {SEARCH_SPACES_TAG} there, or unset the variable"
        found = f"CIQ_SEARCH_SPACES_DIR={directory} holds no manifest that can be read"
        return Examined("spaces", _SPACES, found, remedy)


def _for_this_ptxas(found: str) -> Examined:
    """The finding for spaces ``found``: ptxas refuses what a space of another minor version draws."""
    try:
        tool = next(installed("ptxas"), None)
    except EnvironmentFault:
        tool = None  # the compilers' own findings say so
    if tool is None or tool.line == f"ptxas{SEARCH_SPACES_OF}":
        return Examined("spaces", _SPACES, found)
    found = f"{found}; they are for {SEARCH_SPACES_OF}, and ptxas is {tool.version}"
    return Examined("spaces", _SPACES, found, pinned(SEARCH_SPACES_OF))


def _devices() -> Iterator[Examined]:
    yield Examined("device", "processor", find_device("cpu").name)
    try:
        gpu = find_device("cuda")
        limit = f", {gpu.power_limit_w:g} W" if gpu.power_limit_w else ""
        yield Examined("device", "GPU", f"{gpu.name} ({gpu.architecture}), driver {gpu.driver}{limit}")
    except EnvironmentFault as error:
        yield Examined("device", "GPU", "", str(error))
    try:  # where runs that measure on the same device meet
        directory = lock_directory()
    except EnvironmentFault as error:
        yield Examined("device", "locks", "", str(error))
        return
    cannot = is_in_container() and not is_lock_dir_given() and find_device_or_none("cuda") is not None
    yield Examined("device", "locks", f"in {directory}" + (f"; {SHARED}" if cannot else ""))


def _what_works(findings: list[Examined]) -> Iterator[Examined]:
    """Each feature, with the first thing that it lacks."""
    needs: dict[str, tuple[str, ...]] = {
        "Cc": ("gcc",),
        "Ptxas and Nvcc, public options": ("ptxas", "nvcc"),
        "ACFs: replay in CI without a GPU": ("ptxas",),
        "ACFs: search with CompileIQ": ("ptxas", "compileiq", _SPACES),
        "Triton kernels, ahead of time": ("triton", "ptxas"),
        "GPU timing and launches": ("GPU", "cuda-core", "cuda-bindings", "nvidia-ml-py"),
    }
    by_name = {finding.name: finding for finding in reversed(findings)}
    for what, names in needs.items():
        acf = what.startswith("ACFs")
        lacking = [one for one in map(by_name.__getitem__, names) if not one.found or (acf and one.remedy)]
        remedy = f"{lacking[0].name}: {lacking[0].remedy}" if lacking else ""
        yield Examined("works", what, "" if lacking else "yes", remedy)
