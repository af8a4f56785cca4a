"""Builds nothing: writes the parameters of an arm down, and digests all that they depend on."""

from __future__ import annotations

import ast
import importlib.metadata
import json
import re
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from pytest_compileiq.errors import BodyError, BuildError, EnvironmentFault, MarkerError
from pytest_compileiq.model import (
    INTEGERS,
    LARGEST_NUMBER,
    LONGEST_TEXT,
    PARAMS,
    BuildResult,
    Candidate,
    CodeDigest,
    Compiler,
    ControlsFile,
    Knobs,
    KnobValue,
    Target,
    sha256_hex,
)
from pytest_compileiq.rules.fingerprint import canonical_text
from pytest_compileiq.spelling import did_you_mean
from pytest_compileiq.system.cpu import this_architecture
from pytest_compileiq.toolchains.base import Builder, Place
from pytest_compileiq.toolchains.cc.flags import find_file
from pytest_compileiq.toolchains.inputs import read_source
from pytest_compileiq.toolchains.marker_values import named_values
from pytest_compileiq.toolchains.options import parse_named
from pytest_compileiq.toolchains.params.marker import Params, line_of, render

ENTRY = "acf.params"  # in the place of an entry function: no symbol of a library is called so
_PACKAGE = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?")


def resolve(params: Params, place: Place) -> ParamsBuilder:
    """Implements ``pytest_compileiq.toolchains.params.marker.Params.resolve``."""
    defaults = _checked_defaults(params.defaults)
    for key in ("versions", "sources"):
        names: object = getattr(params, key)
        if not isinstance(names, tuple) or not all(isinstance(name, str) and name for name in names):
            raise MarkerError(f"Params({key}={names!r}): expected a list of names")
    packages = [f"{name} {_version(name)}" for name in sorted(set(params.versions))]
    architecture = this_architecture()
    return ParamsBuilder(
        compiler=Compiler(
            name=PARAMS,
            version="",
            build=", ".join(packages),
            command=(PARAMS, *(line_of(name, value) for name, value in defaults.items())),
            architecture_from="machine",
        ),
        architecture=architecture,
        target=Target.of(architecture, PARAMS),
        baseline_params=defaults,
        source_paths=tuple(find_file(name, place, f"Params(sources={name!r})") for name in params.sources),
        rootdir=place.rootdir,
    )


@dataclass(frozen=True)
class ParamsBuilder(Builder):
    """Compiles nothing: the one entry is the digest of parameters, packages and sources."""

    compiler: Compiler
    architecture: str
    target: str
    baseline_params: Mapping[str, KnobValue]
    source_paths: tuple[str, ...]
    rootdir: Path
    knobs_taken: frozenset[str] = frozenset()
    clock: str = "cpu"

    def render(self, candidate: Candidate) -> ControlsFile:
        return render(candidate)

    def parse(self, kind: str, data: bytes, knobs: Knobs) -> ControlsFile:
        return parse_named(kind, data, knobs, render, "Params")

    def sources(self) -> Mapping[str, str]:
        return {name: sha256_hex(data) for name, data in self._contents().items()}

    def build(self, controls: ControlsFile | None, out_dir: Path, *, timeout_s: float) -> BuildResult:
        start = time.perf_counter()
        params = dict(self.baseline_params) | dict(controls.knobs if controls else {})
        meanings = {name: _meaning(name, data) for name, data in self._contents().items()}
        lines = sorted(line_of(name, value) for name, value in params.items())
        out_dir.mkdir(parents=True, exist_ok=True)
        path = out_dir / "params.json"
        path.write_text(f"{json.dumps(params, indent=1, sort_keys=True)}\n", encoding="utf-8")
        seconds = time.perf_counter() - start
        if seconds > timeout_s:
            raise BuildError(f"reading the sources took longer than {timeout_s:g} s", kind="timeout")
        decides = json.dumps([lines, self.compiler.build, sorted(meanings.items())])
        return BuildResult(path, {ENTRY: CodeDigest(sha256_hex(decides.encode()))}, {}, "", seconds)

    def options(self, controls: ControlsFile, path: Path) -> tuple[str, ...]:
        return ()

    def load(self, built: BuildResult, used: set[str]) -> Any:
        raise BodyError("Params compiles nothing, so that there is nothing to load: read acf.params instead")

    def _contents(self) -> dict[str, bytes]:
        return {name: read_source(self.rootdir / name) for name in sorted(self.source_paths)}


@lru_cache(maxsize=256)
def _meaning(name: str, data: bytes) -> str:
    """The digest of what a source says: of Python without comments, docstrings and formatting."""
    if not name.endswith(".py"):
        return sha256_hex(data)
    try:
        return sha256_hex(canonical_text(ast.parse(data)).encode())
    except (SyntaxError, ValueError, RecursionError) as error:
        raise BuildError(f"{name} is no Python: {' '.join(str(error).split())[:300]}", kind="compile") from error


def _checked_defaults(given: object) -> dict[str, KnobValue]:
    if (defaults := named_values(given)) is None:
        raise MarkerError(f"Params(defaults={given!r}): expected a dict, as in {{'threads': 4}}")
    for name, value in defaults.items():
        is_whole = isinstance(value, int) and value in INTEGERS
        if not (is_whole or isinstance(value, str) or (isinstance(value, float) and abs(value) <= LARGEST_NUMBER)):
            raise MarkerError(f"Params(defaults=…): {name} = {value!r}: expected a bool, a finite number or a text")
        if len(line_of(name, value)) > LONGEST_TEXT:
            raise MarkerError(f"Params(defaults=…): {name} is longer than {LONGEST_TEXT} characters: name a file")
    return defaults


def _version(name: str) -> str:
    """The version of an installed package; Python's own line for ``python``."""
    if not _PACKAGE.fullmatch(name):
        raise MarkerError(f"Params(versions={name!r}): expected a package's name alone, as in 'xgboost'")
    if name == "python":
        return f"{sys.version_info.major}.{sys.version_info.minor}"
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError as error:
        if brings := importlib.metadata.packages_distributions().get(name):
            mend = f"that is what {brings[0]} is imported as: name {brings[0]!r}"
        else:
            meant = did_you_mean(name, {str(found.metadata["Name"]) for found in importlib.metadata.distributions()})
            otherwise = "; if you mean that package" if meant else ""
            mend = f"no package of that name is installed{meant}{otherwise}: pip install {name}"
        raise EnvironmentFault(f"Params(versions={name!r}): {mend}") from error
