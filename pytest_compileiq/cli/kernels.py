"""Finds the functions and kernels of a project that a benchmark could be of: its files are read, and none is executed.

A scan of text, not a parser: a name that it finds is a proposal, and the compiler decides.
"""

from __future__ import annotations

import ast
import os
import re
import warnings
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Literal

from pytest_compileiq.rules.fingerprint import chain_of
from pytest_compileiq.system.files import Unfit, read_regular
from pytest_compileiq.toolchains.cc.compilation_database import FILE

Language = Literal["c", "cuda", "triton"]

C, CPLUSPLUS, CUDA, HEADERS = (".c",), (".cc", ".cpp", ".cxx"), (".cu",), (".h", ".hh", ".hpp", ".cuh")
_LEFT_OUT = {"node_modules", "__pycache__", "build", "dist", "_build", "site-packages"}
_MOST_FILES = 20_000
_MOST_BYTES = 1 << 20
_LONGEST_HEAD = 2_000  # of the text before a body, in characters
_MOST_CALLS = 16  # in a head: attributes and macros before the name

_NO_CODE = re.compile(
    r"/\*.*?(?:\*/|\Z)|//[^\n]*|^[ \t]*#(?:[^\n\\]|\\.)*|\"(?:\\.|[^\"\\\n])*\"?|'(?:\\.|[^'\\\n]){1,10}'",
    re.DOTALL | re.MULTILINE,
)
_SCOPE = re.compile(r"extern\s*|(?:inline\s+)?namespace\s+(?P<name>\w+(?:::\w+)*)\s*")
_CALL = re.compile(r"(?<![\w:~])(?P<name>[A-Za-z_]\w*)\s*\(")
_NO_FUNCTIONS = {"if", "for", "while", "switch", "defined", "__attribute__", "__launch_bounds__", "__declspec", "main"}
_HAS_NO_ENTRY = re.compile(r"\b(?:static|inline|__inline__|operator|class|struct\s+\w+\s*:|__device__|using)\b|=\s*$")
_OF_A_CLASS = re.compile(r"^\S[^\n;{}()]*?\b(\w+)::~?\w+\s*\(", re.MULTILINE)
_VARIABLE = re.compile(
    r"^(?!(?:extern|static|typedef|using|namespace|return)\b|(?:struct|class|enum|union)\s+\w+\s*[;{:])"
    r"(?:[\w:<>]++[ \t*&]++)+(?:\w+::)*+(\w++)[ \t]*+(?:\[[^\]\n]{0,100}\][ \t]*+){0,8}(?:=(?!=)|[;{,])",
    re.MULTILINE,
)
_MAKES_A_MODULE = re.compile(r"^[^;\n]*\b(PyInit_\w+)\s*\(\s*void\s*\)(?!\s*;)", re.MULTILINE)
_TRITON_JIT = ("triton.jit", "jit")


@dataclass(frozen=True)
class KernelInSource:
    """A function or kernel; the name has its namespaces, the file is relative to the project."""

    file: Path
    name: str
    language: Language
    is_template: bool = False
    node: ast.FunctionDef | None = field(default=None, compare=False)  # of Triton

    @property
    def spelled(self) -> str:
        """As ``--function`` takes it."""
        return f"{self.file.as_posix()}::{self.name}"


@dataclass
class Sources:
    """The content of a project; paths are relative to it."""

    kernels: list[KernelInSource] = field(default_factory=list)
    headers: list[Path] = field(default_factory=list)
    sources: list[Path] = field(default_factory=list)
    databases: list[Path] = field(default_factory=list)
    classes: dict[str, set[Path]] = field(default_factory=dict)  # of C++ → sources that define its functions
    variables: dict[str, set[Path]] = field(default_factory=dict)  # global ones → sources that define them
    cython: list[Path] = field(default_factory=list)
    modules: list[str] = field(default_factory=list)  # functions that make extension modules, as --function takes them
    benchmarks: list[Path] = field(default_factory=list)  # files that import this package
    is_whole: bool = True  # all files were looked at
    is_empty: bool = True  # but for settings and licences


def look(project: Path, without: frozenset[str]) -> Sources:
    """Look through ``project``; links are not followed, and files called as in ``without`` are left out."""
    found = Sources()
    for number, path in enumerate(_files(project)):
        if number == _MOST_FILES:
            found.is_whole = False
            break
        if path.name not in without and not path.name.startswith("."):
            found.is_empty = False
            _add(found, project, path)
    databases = [project / FILE, *sorted(project.glob(f"*/{FILE}"))]
    found.databases += (path.relative_to(project) for path in databases if path.is_file())
    found.kernels.sort(key=lambda kernel: (kernel.file, kernel.name))
    return found


def _files(project: Path) -> Iterator[Path]:
    for folder, below, names in os.walk(project):
        below[:] = sorted(
            name
            for name in below
            if name not in _LEFT_OUT and not name.startswith((".", "cmake-build")) and not name.endswith(".egg-info")
            if not (Path(folder, name) / "pyvenv.cfg").exists()
        )
        yield from (Path(folder, name) for name in sorted(names))


def _add(found: Sources, project: Path, path: Path) -> None:
    file, suffix = path.relative_to(project), path.suffix.lower()
    if suffix == ".pyx":
        found.cython.append(file)
    if suffix not in (*C, *CPLUSPLUS, *CUDA, *HEADERS, ".py"):
        return
    try:
        text = read_regular(path, _MOST_BYTES).decode(errors="replace")
    except Unfit:
        return
    if suffix == ".py":
        found.benchmarks += [file] if "pytest_compileiq" in text else []
        found.kernels += _triton(file, text)
    elif text.startswith("/* Generated by Cython"):
        found.cython.append(file)
    else:
        (found.headers if suffix in HEADERS else found.sources).append(file)
        for pattern, files in ((_OF_A_CLASS, found.classes), (_VARIABLE, found.variables)):
            for name in set(pattern.findall(text)) if suffix in (*C, *CPLUSPLUS) else ():
                files.setdefault(name, set()).add(file)
        found.modules += (f"{file.as_posix()}::{name}" for name in _MAKES_A_MODULE.findall(text))
        language: Language = "cuda" if suffix in (".cu", ".cuh") else "c"
        found.kernels += {
            name: KernelInSource(file, name, language, is_template)
            for name, is_kernel, is_template in definitions(text)
            if not name.startswith("PyInit_") and is_kernel == (language == "cuda") and (is_kernel or not is_template)
        }.values()


def definitions(text: str) -> Iterator[tuple[str, bool, bool]]:
    """(name, whether it is a ``__global__`` kernel, whether it is a template) of C, C++ or CUDA with public names."""
    code = _NO_CODE.sub(lambda match: "" if match[0][0] in "/\"'" else "\n", text)
    scopes: list[str] = []
    hidden, start = 0, 0
    for mark in re.finditer("[{};]", code):
        head = code[max(start, mark.start() - _LONGEST_HEAD) : mark.start()].strip()
        start = mark.end()
        if mark[0] == "}" and hidden:
            hidden -= 1
        elif mark[0] == "}" and scopes:
            scopes.pop()
        elif mark[0] == "{" and (hidden or not (scope := _SCOPE.fullmatch(head))):
            is_template = head.startswith("template")
            defined = None if hidden else _defined(_behind_parameters(head) if is_template else head)
            hidden += 1
            if defined:
                yield "::".join([*filter(None, scopes), defined]), "__global__" in head, is_template
        elif mark[0] == "{":
            scopes.append(scope["name"] or "" if scope else "")


def _behind_parameters(head: str) -> str:
    """``head`` without the parameters of its template."""
    depth = 0
    for mark in re.finditer("[<>]", head):
        depth += 1 if mark[0] == "<" else -1
        if depth == 0:
            return head[mark.end() :]
    return ""


def _defined(head: str) -> str | None:
    """The function that ``head``, the text before a body, defines."""
    if _HAS_NO_ENTRY.search(head) or not re.search(r"\)\s*(?:noexcept)?$", head):
        return None
    for match in islice(_CALL.finditer(head), _MOST_CALLS):  # the first behind a type: API(int), a macro, has none
        before = head[: match.start()].strip()
        is_outside = before.count("(") == before.count(")") and not before.endswith((",", ":"))
        if before and is_outside and match["name"] not in _NO_FUNCTIONS:
            return match["name"]
    return None


def _triton(file: Path, text: str) -> Iterator[KernelInSource]:
    if "triton" not in text or "jit" not in text:
        return
    try:
        with warnings.catch_warnings(action="ignore"):  # of a stranger's invalid escapes
            body = ast.parse(text).body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return
    nodes = (node for each in body for node in ast.walk(each))
    called = {node.func.id for node in nodes if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)}
    wrapped = {name for node in body if isinstance(node, ast.Assign) for name in _wrapped(node.value)}
    for node in body:
        if not isinstance(node, ast.FunctionDef) or node.name in called:
            continue
        decorators = (each.func if isinstance(each, ast.Call) else each for each in node.decorator_list)
        if node.name in wrapped or any(map(_is_jit, decorators)):
            yield KernelInSource(file, node.name, "triton", node=node)


def _is_jit(node: ast.expr) -> bool:
    return ".".join(chain_of(node) or ()) in _TRITON_JIT


def _wrapped(value: ast.expr) -> Iterator[str]:
    """The function of ``kernel = triton.jit(kernel)``."""
    if isinstance(value, ast.Call) and _is_jit(value.func):
        yield from (each.id for each in value.args if isinstance(each, ast.Name))
