"""The text of a kernel's first benchmark. What only its author knows is never guessed without saying so in the test."""

from __future__ import annotations

import ast
import json
import keyword
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from pytest_compileiq.cli.kernels import KernelInSource
from pytest_compileiq.errors import UserError
from pytest_compileiq.machine_code.prototypes import CType, Prototype
from pytest_compileiq.rules.fingerprint import chain_of
from pytest_compileiq.spelling import test_name
from pytest_compileiq.toolchains.cc.marker import Cc
from pytest_compileiq.toolchains.nvidia.markers import Nvcc

_ARCH = "sm_90a"
# A matrix of as many rows lies within guards.
_SIZE = "N = 1024  # more, once the guesses are right: short calls are measured badly"
_BLOCK = 1024
_RESERVED = {
    "acf", "ctypes", "function", "np", "pytest", "returned", "restore", "call", "arguments", "N", "Cc", "guarded",
    "try_call", "timeout_s", "module_of",
}  # fmt: skip
_COUNTS = re.compile(
    r"(?:n|num|nbytes|\w*(?:[lL]en(?:gth)?|[sS]ize|[cC]ount|[cC]apacity)|n_\w+|\w+_n|num_\w+|n(?:items|elem\w*))\d?"
)
_TRITON_TYPES = {"int32": "i32", "int64": "i64", "float32": "fp32", "float64": "fp64", "uint32": "u32"}
_C_NAMES = {("float", 4): "c_float", ("float", 8): "c_double", ("bool", 1): "c_bool"}


@dataclass(frozen=True)
class FirstBuild:
    """The build of a function's test; ``called`` is the name that ``load()`` takes."""

    marker: Cc
    called: str
    has_neighbours: bool


class AuthorKnows(UserError):
    """What a benchmark cannot be written without, and no file tells; the message is a sentence."""


# ── C and C++ ────────────────────────────────────────────────────────────────────────────────────────────────────────


def c_benchmark(prototype: Prototype, building: FirstBuild) -> tuple[str, str | None]:
    """The test of a C or C++ function, and a sentence on what its author has to add, or None."""
    name = building.called
    marker = building.marker
    options = {"flags": marker.flags, "like": marker.like, "compiler": marker.compiler}
    given = [json.dumps(source) for source in marker.sources]
    given += [f"{key}={json.dumps(value)}" for key, value in options.items() if value]
    if building.has_neighbours:
        given += [f"functions={json.dumps(name)}", 'neighbours="allow"']
    lines = ["@pytest.mark.tune(", "    Cc(", *(f"        {each}," for each in given), "    )", ")"]
    lines.append(f"def {test_name(name)}(acf):")
    load = f".{name}" if name.isidentifier() and not keyword.iskeyword(name) else f"[{json.dumps(name)}]"
    if missing := _why_not_called(prototype):
        sentence = f"only its author knows how {name} is called: {missing}; call and measure it here"
        imports, body, measured = ["import pytest", "", "from pytest_compileiq import Cc"], [], "function()"
        if name.startswith("PyInit_"):
            sentence = f"only its author knows how {name}'s functions are called: call and measure them here"
            imports.append("from pytest_compileiq.guards import module_of")
            body.append(f"    module = module_of(function, {json.dumps(name.removeprefix('PyInit_'))})")
            measured = "module.FUNCTION()"
        body = [
            f"    function = acf.build().load(){load}",
            *body,
            f"    pytest.fail({json.dumps(sentence)})",
            f"    acf.measure(lambda: {measured})",
        ]
        return _file(f"{name}: the marker is complete, its call is yours to write.", imports, [*lines, *body]), sentence
    guesses = ["each array has N elements"] if _arrays(prototype) else []
    guesses += [f"{local} is {_scalar(local, kind)}" for local, kind in _locals(prototype) if kind.kind != "array"]
    lines += _call(prototype, load)
    guards = "guarded, try_call" if _arrays(prototype) else "try_call"
    imports = ["import ctypes", "", "import numpy as np", "import pytest", "", "from pytest_compileiq import Cc"]
    imports.append(f"from pytest_compileiq.guards import {guards}")
    if re.search(r"\bN\b", "\n".join(lines)):
        imports += ["", _SIZE]
    about = f"{name}. Guessed by names: {', '.join(guesses)}." if guesses else f"{name}."
    return _file(about, imports, lines), None


def _file(about: str, imports: Sequence[str], lines: Sequence[str]) -> str:
    return "\n".join(
        [f"# A first benchmark of {about}", "# Written by acf init; yours to edit.", *imports, "", "", *lines, ""]
    )


def _call(prototype: Prototype, load: str) -> Iterator[str]:
    named = _locals(prototype)
    written = [local for local, kind in named if kind.kind == "array" and not kind.is_constant]
    returns = _returns_a_number(prototype)
    yield f"    function = acf.build().load(){load}"
    yield f"    function.argtypes = [{', '.join(_c_type(kind) for _, kind in named)}]"
    yield f"    function.restype = {None if prototype.result.kind == 'void' else _c_type(prototype.result)}"
    for local, kind in named:
        if kind.kind == "array":
            yield f"    {local} = guarded({_drawn(kind)})"
            if kind.element == "character":
                yield f"    {local}[-1] = 0  # a text ends here"
    given = (f"{local}.ctypes.data" if kind.kind == "array" else _scalar(local, kind) for local, kind in named)
    yield f"    arguments = [{', '.join(given)}]"
    arrays = "".join(f", {local}={local}" for local, kind in named if kind.kind == "array")
    yield f"    try_call(function, arguments{arrays})  # in a process of its own: says which guess is wrong"
    if written:
        first = ", ".join(f"({local}, {local}.copy())" for local in written)
        yield f"    restore = [{first}]  # it may read what it writes"
    reset = ", reset=lambda: [np.copyto(*each) for each in restore]" if written else ""
    if returns:
        yield f"    returned = np.empty(1, dtype={_dtype(prototype.result)})"
        yield "    call = lambda: returned.__setitem__(0, function(*arguments))  # noqa: E731"
        written.append("returned")
    call = "call" if returns else "lambda: function(*arguments)"
    yield f"    acf.measure({call}, outputs=[{', '.join(written)}]{reset})"
    for local in written:  # what was timed is compared with the baseline's, bit for bit
        yield f"    acf.compare({json.dumps(local)}, {local})"


def _why_not_called(prototype: Prototype) -> str | None:
    """What no type and no customary name tells of a call, as a part of a sentence."""
    for name, kind in prototype.arguments:
        if kind.kind in ("other", "pointer"):
            return f"{name or 'an argument'} is neither a number nor an array of numbers"
        if kind.kind == "array" and kind.element == "integer" and _COUNTS.fullmatch(name):
            return f"the value that {name} points to"
    if prototype.result.kind == "other":
        return "its result is neither a number nor a pointer"
    if prototype.is_variadic:
        return "its number of arguments varies"
    integers = [name for name, kind in prototype.arguments if kind.kind in ("integer", "character")]
    if _arrays(prototype) and not any(map(_COUNTS.fullmatch, integers)):
        return "no argument is called as the number of elements is, such as n or length"
    if unknown := [name for name in integers if not _COUNTS.fullmatch(name) and name != "seed"]:
        return f"the value of {' and '.join(unknown)}"
    if not _returns_a_number(prototype) and all(kind.is_constant for kind in _arrays(prototype)):
        return "it returns no number and writes to no argument"
    return None


def _returns_a_number(prototype: Prototype) -> bool:
    return prototype.result.kind not in ("void", "array", "pointer")


def _arrays(prototype: Prototype) -> list[CType]:
    return [kind for _, kind in prototype.arguments if kind.kind == "array"]


def _locals(prototype: Prototype) -> list[tuple[str, CType]]:
    """(name in the test, type) of each argument."""
    named = []
    for place, (name, kind) in enumerate(prototype.arguments):
        usable = name.isidentifier() and not keyword.iskeyword(name) and name not in _RESERVED
        named.append((name if usable else f"{name}_" if f"{name}_".isidentifier() else f"argument{place}", kind))
    return named


def _scalar(local: str, kind: CType) -> str:
    if kind.kind == "float":
        return "0.5"
    if kind.kind == "bool":
        return "True"
    return "1" if local == "seed" else "N"


def _c_type(kind: CType) -> str:
    if kind.kind in ("array", "pointer"):
        return "ctypes.c_void_p"
    named = _C_NAMES.get((kind.kind, kind.bytes), f"c_{'' if kind.is_signed else 'u'}int{kind.bytes * 8}")
    return f"ctypes.{named}"


def _drawn(kind: CType) -> str:
    if kind.element == "float":
        return f"acf.rng.random(N, dtype={_dtype(kind)})"
    is_bytes = kind.element == "void" or (kind.element == "integer" and kind.bytes == 1 and not kind.is_signed)
    low, high = {"character": (97, 123), "bool": (0, 2)}.get(kind.element, (0, 256 if is_bytes else 100))
    return f"acf.rng.integers({low}, {high}, N, dtype={_dtype(kind)})"


def _dtype(kind: CType) -> str:
    if "float" in (kind.kind, kind.element):
        return f"np.float{kind.bytes * 8}"
    return f"np.{'' if kind.is_signed else 'u'}int{kind.bytes * 8}"


# ── CUDA and Triton ──────────────────────────────────────────────────────────────────────────────────────────────────


def cuda_benchmark(name: str, marker: Nvcc, pattern: str | None) -> str:
    """The test of a CUDA kernel, which ``pattern`` names among others: of its registers, which nvcc alone tells."""
    options = {"arch": marker.arch, "flags": marker.flags, "like": marker.like}
    given = [json.dumps(marker.source), *(f"{key}={json.dumps(value)}" for key, value in options.items() if value)]
    if pattern:
        given += [f"functions={json.dumps(pattern)}", 'neighbours="allow"']
    of = f", of={json.dumps(pattern)}" if pattern else ""
    about = f"{name}'s registers, which need no GPU; for its time launch it as the tutorial does, and acf.measure that."
    return _on_a_build(about, name, "Nvcc", given, [f'objectives=[minimize("registers"{of})]'])


def triton_benchmark(kernel: KernelInSource, source: str) -> str:
    """The test of a Triton kernel's registers; raises ``AuthorKnows`` where its launch alone tells types or values."""
    assert kernel.node is not None
    signature, constexprs, unknown = _triton_arguments(kernel.node)
    if unknown:
        raise AuthorKnows(
            f"{kernel.spelled}: only its launch tells {', '.join(unknown)}: have the test written of a program that "
            "launches it, by acf capture --tests tests -- python PROGRAM"
        )
    given = [
        json.dumps(f"{source}::{kernel.name}"),
        f"signature={json.dumps(signature)}",
        f"constexprs={json.dumps(constexprs)}",
    ]
    about = f"{kernel.name}'s registers. Assumed: its signature and its constexprs."
    space = ['space={"num_warps": choice([2, 4, 8])}', 'objectives=[minimize("registers")]']
    return _on_a_build(about, kernel.name, "Triton", [*given, f'arch="{_ARCH}"'], space)


def _on_a_build(about: str, name: str, toolchain: str, given: Sequence[str], rest: Sequence[str]) -> str:
    names = ["choice", "minimize"] if toolchain == "Triton" else ["minimize"]
    imports = ["import pytest", "", f"from pytest_compileiq import {', '.join([toolchain, *names])}"]
    lines = ["@pytest.mark.tune(", f"    {toolchain}(", *(f"        {each}," for each in given), "    ),"]
    lines += [*(f"    {each}," for each in rest), ")", f"def {test_name(name)}(acf):", "    acf.build()"]
    return _file(about, imports, lines)


def _triton_arguments(node: ast.FunctionDef) -> tuple[dict[str, str], dict[str, object], list[str]]:
    """The signature, the values of constexprs, and the arguments of which neither is known."""
    told = {each.value for tree in node.decorator_list for each in ast.walk(tree) if isinstance(each, ast.Constant)}
    told |= {each.arg for tree in node.decorator_list for each in ast.walk(tree) if isinstance(each, ast.keyword)}
    listed = [*node.args.posonlyargs, *node.args.args]
    defaults = dict(zip([each.arg for each in listed][::-1], node.args.defaults[::-1], strict=False))
    signature: dict[str, str] = {}
    constexprs: dict[str, object] = {}
    unknown = []
    for each in listed:
        kind = (chain_of(each.annotation) or ("",))[-1] if each.annotation else ""
        default = defaults.get(each.arg)
        if kind == "constexpr":
            if default is None and each.arg not in told:
                if "BLOCK" in each.arg:
                    constexprs[each.arg] = _BLOCK
                else:
                    unknown.append(f"the value of {each.arg}")
        elif kind in _TRITON_TYPES:
            signature[each.arg] = _TRITON_TYPES[kind]
        elif isinstance(default, ast.Constant) and default.value is None:
            continue
        elif each.annotation is None and each.arg.endswith(("ptr", "ptrs", "pointer")):
            signature[each.arg] = "*fp32:16"
        elif each.annotation is None and (
            each.arg in ("M", "N", "K") or "stride" in each.arg or _COUNTS.fullmatch(each.arg)
        ):  # called as a count, a stride or a side of a matrix is
            signature[each.arg] = "i32"
        else:
            unknown.append(f"the type of {each.arg}")
    return signature, constexprs, unknown
