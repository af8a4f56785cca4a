"""Writes a test for each captured kernel; never over a file that somebody may have edited."""

from __future__ import annotations

import difflib
import json
import os
import re
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Literal

from pytest_compileiq.capture.bundle import Bundle, CapturedKernel
from pytest_compileiq.capture.launches import LaunchedKernel, Specialisation, ptx_of
from pytest_compileiq.capture.report import told_of_launch
from pytest_compileiq.capture.toolchain.sources import FunctionSources, NamedSources, sources_of
from pytest_compileiq.cli.locate import configures_pytest
from pytest_compileiq.errors import CompileIQError, UserError
from pytest_compileiq.ship.acf_runtime import ptx_sha256
from pytest_compileiq.spelling import quantity, test_name
from pytest_compileiq.system.files import replace
from pytest_compileiq.system.printing import visible
from pytest_compileiq.toolchains.base import Place
from pytest_compileiq.toolchains.inputs import is_installed
from pytest_compileiq.toolchains.triton.marker import Triton
from pytest_compileiq.toolchains.triton.source import find_kernel


def project_of(directory: Path) -> Path:
    """The project that a directory for tests belongs to: the nearest one above with settings for pytest, or here."""
    return next((each for each in directory.absolute().parents if configures_pytest(each)), Path.cwd()).resolve()


def write_tests(
    directory: Path, bundle: Bundle, kernels: Mapping[str, CapturedKernel], given: NamedSources
) -> Iterator[str]:
    """Write ``test_NAME.py`` for each kernel, or ``test_NAME.py.new`` beside one that differs; gives lines to print."""
    directory.mkdir(parents=True, exist_ok=True)
    place = Place(directory.resolve(), project_of(directory))
    is_any_without = False
    for name, kernel in kernels.items():
        try:
            sources = _sources(kernel, given, place)
        except UserError as why:
            yield f"no test of {name}: {why}"
            continue
        is_any_without |= sources.like is None
        text = "\n".join(_lines(name, kernel, _from(directory, bundle.root), directory, sources)) + "\n"
        yield from _written(directory / f"{test_name(name)}.py", text)
        if sources.remark:
            yield f"the test of {name} will not do as it is: {sources.remark}"
    if is_any_without:
        yield (
            "macros (-D) are not known from a library: where its build gives any, --like compile_commands.json brings "
            "them"
        )


def _sources(kernel: CapturedKernel, given: NamedSources, place: Place) -> FunctionSources:
    if not any(call.is_exact for call in kernel.kept):
        raise UserError("no call of it is recorded exactly")
    if not kernel.shows_its_work:
        raise UserError(
            f"nothing that it does is recorded: set {kernel.function}.restype in the program, if it returns"
        )
    return sources_of(Path(kernel.library), kernel.function, given, place)


def _from(directory: Path, path: Path) -> str:
    return Path(os.path.relpath(path, directory)).as_posix()


def _lines(name: str, kernel: CapturedKernel, capture: str, directory: Path, sources: FunctionSources) -> Iterator[str]:
    called = f"{test_name(name)[5:]} as a program called it, {quantity(kernel.calls, 'time')}"
    yield f'"""{called}. Written by acf capture; yours to edit."""'
    yield from ("", "import pytest", "from pytest_compileiq import Captured", "", "")
    yield "@pytest.mark.tune("
    yield "    Captured("
    yield f"        {json.dumps(f'{capture}/{name}')},"
    yield from (f"        {json.dumps(_from(directory, path))}," for path in sources.paths)
    flags = sources.every_flag
    if sources.like is not None:
        yield f"        like={json.dumps(_from(directory, sources.like))},"
        if flags:
            yield f"        flags={json.dumps(flags)},"
    else:
        if flags is None:
            yield '        # how the library was compiled is not known: say it here, or by like="compile_commands.json"'
        else:
            yield '        # -D is not known here: like="compile_commands.json" in place of flags brings it'
        yield f"        flags={json.dumps(flags or '-O2')},"
        if sources.compiler not in (None, "gcc"):
            yield f"        compiler={json.dumps(sources.compiler)},"
    yield '        neighbours="allow",  # the other functions of the source share its options'
    yield "    ),"
    yield "    workloads={"
    for number, shape in enumerate(kernel.shapes):
        if any(call.is_exact for call in shape.kept):
            told = ", ".join(json.dumps(part).strip('"') for part in shape.shape)
            yield f'        "shape{number}": dict(shape={number}, weight={shape.calls}),  # ({told})'
    yield "    },"
    yield ")"
    yield f"def {test_name(name)}(acf):"
    yield "    kernel = acf.build().load()"
    yield "    kernel.check(acf.workload.shape)  # its recorded calls, bit for bit; floats within check(…, rtol=…)"
    yield "    call = kernel.call(acf.workload.shape)"
    yield "    acf.measure(call, reset=call.reset, check=call.check)"


def _written(path: Path, text: str) -> Iterator[str]:
    """Write ``text`` to ``path``, or beside it where another text is there; gives lines to print."""
    if not path.exists():
        replace(path, text.encode())
        yield f"wrote {path}"
        return
    there = path.read_text(encoding="utf-8", errors="replace")
    if there == text:
        yield f"{path} is the same"
        return
    beside = path.with_name(f"{path.name}.new")
    replace(beside, text.encode())
    yield f"{path} is there and differs, so {beside} was written:"
    yield from difflib.unified_diff(there.splitlines(), text.splitlines(), path.name, beside.name, lineterm="")


_BY_NAME = ("num_warps", "num_stages")  # arguments of Triton(…) themselves
_OF_A_CONFIG = {"maxnreg": None, "num_ctas": 1}  # what a config of @triton.autotune may set besides
_MOST_TESTS = 8  # of a kernel; a specialisation each
_TOLD_CALLS = 3
_WIDTH = 110
_BUILD_S = 300.0
_VERSION = re.compile(r"(?m)^\.version (\S+)$")
_ENTRY = re.compile(r"\.entry\s+([\w$]+)")
# Where there is no GPU, load() ends the body; where there is one, a test that compares nothing must not pass.
_UNFINISHED = "no data was recorded: launch it on yours, compare, and acf.measure the launch"


@dataclass(frozen=True)
class MarkedSpecialisation:
    """A specialisation, and the marker's toolchain for it with its first argument and the others."""

    each: Specialisation
    toolchain: Literal["Triton", "Ptxas"]
    source: str
    arguments: Mapping[str, Any]
    entry: str
    note: str | None = None


def write_launched_tests(directory: Path, bundle: Bundle, kernels: Mapping[str, LaunchedKernel]) -> Iterator[str]:
    """Write tests as ``write_tests`` does, and tell whether they rebuild the PTX that the program launched."""
    directory.mkdir(parents=True, exist_ok=True)
    place = Place(directory.absolute(), project_of(directory))
    for name, kernel in kernels.items():
        texts = [ptx_of(bundle, each.ptx) for each in kernel.specialisations[:_MOST_TESTS]]
        marked = _marked(name, kernel, texts, place)
        yield from _written(directory / f"{test_name(name)}.py", launched_test(name, kernel, marked))
        for number, (each, text) in enumerate(zip(marked, texts, strict=True), 1):
            if each.toolchain == "Ptxas":
                yield from _written(directory / each.source, text)
            else:
                yield f"{_name_of_test(name, number)} {_rebuilt(each, text, kernel.triton, place)}"
        if len(kernel.specialisations) > _MOST_TESTS:
            yield f"no test of {quantity(len(kernel.specialisations) - _MOST_TESTS, 'more specialisation')} of {name}"


def _name_of_test(kernel: str, number: int) -> str:
    return test_name(kernel) if number == 1 else f"{test_name(kernel)}_{number}"


def _marked(name: str, kernel: LaunchedKernel, texts: list[str], place: Place) -> list[MarkedSpecialisation]:
    source, why = _source(kernel, place)
    named = _OF_A_CONFIG if source and not find_kernel(source, place).is_jit_alone else {}
    marked = []
    for number, (each, text) in enumerate(zip(kernel.specialisations, texts, strict=False), 1):
        entry = match[1] if (match := _ENTRY.search(text)) else kernel.function
        if source is None or each.why:
            marked.append(by_ptx(f"{_name_of_test(name, number)[5:]}.ptx", each, entry, each.why or why))
        else:
            marked.append(by_source(source, each, named, entry))
    return marked


def _source(kernel: LaunchedKernel, place: Place) -> tuple[str | None, str]:
    """The kernel as ``Triton(…)`` names it, or None and why it cannot, in words that continue after ``it``."""
    file = Path(kernel.file)
    if is_installed(file.as_posix()):
        source = f"{kernel.module}:{kernel.function}"
    elif file.resolve().is_relative_to(place.rootdir.resolve()):
        source = f"{_from(place.test_dir.resolve(), file.resolve())}::{kernel.function}"
    else:
        return None, f"is defined outside the project, in {kernel.file}"
    try:
        find_kernel(source, place)
    except CompileIQError as error:
        return None, f"cannot be named ({error})"
    return source, ""


def by_source(source: str, each: Specialisation, named: Mapping[str, Any], entry: str) -> MarkedSpecialisation:
    """Mark a specialisation by ``Triton(…)``, with launch options ``named`` even where they are Triton's defaults."""
    options = {name: value for name, value in {**named, **each.options}.items() if name not in each.constexprs}
    arguments: dict[str, Any] = {"signature": _as_python(each.signature)}
    if each.constexprs:
        arguments["constexprs"] = _as_python(each.constexprs)
    arguments |= {name: options.pop(name) for name in _BY_NAME if name in options}
    if options:
        arguments["options"] = _as_python(options)
    return MarkedSpecialisation(each, "Triton", source, {**arguments, "arch": each.architecture}, entry)


def by_ptx(file: str, each: Specialisation, entry: str, why: str) -> MarkedSpecialisation:
    """Mark a specialisation by ``Ptxas(…)``, called with the flags of Triton 3.9 that decide on machine code."""
    flags = "--regAllocOptLevel=2" + ("" if each.options.get("enable_fp_fusion", True) else " --fmad=false")
    note = f"it {why}: its PTX alone is tuned, by ptxas"
    return MarkedSpecialisation(each, "Ptxas", file, {"arch": each.architecture, "flags": flags}, entry, note)


def launched_test(name: str, kernel: LaunchedKernel, marked: Sequence[MarkedSpecialisation]) -> str:
    """The text of a test file: a test for each of ``marked``, of the kernel ``name`` in a capture."""
    return "\n".join(_launched_lines(name, kernel, marked)) + "\n"


def _launched_lines(name: str, kernel: LaunchedKernel, marked: Sequence[MarkedSpecialisation]) -> Iterator[str]:
    called = f"{test_name(name)[5:]} as a program launched it, {quantity(kernel.launches, 'time')}"
    yield f'"""{called}. Written by acf capture; yours to edit."""'
    toolchains = ", ".join(sorted({each.toolchain for each in marked}))
    yield from ("", "import pytest", f"from pytest_compileiq import {toolchains}, minimize")
    for number, each in enumerate(marked, 1):
        yield from ("", "")
        launches = (f"launched {told_of_launch(one, each.each)}" for one in each.each.calls_by_frequency[:_TOLD_CALLS])
        for comment in filter(None, [each.note, *launches]):
            yield from textwrap.wrap(visible(comment), _WIDTH, initial_indent="# ", subsequent_indent="#   ")
        yield from ("@pytest.mark.tune(", f"    {each.toolchain}(", f"        {_literal(each.source)},")
        for key, value in each.arguments.items():
            line = f"        {key}={_literal(value)},"
            if len(line) <= _WIDTH or not isinstance(value, dict):
                yield line
            else:
                items = (f"            {_literal(inner)}: {_literal(value[inner])}," for inner in value)
                yield from (f"        {key}={{", *items, "        },")
        yield "    ),"
        yield '    objectives=[minimize("registers")],  # where there is a GPU, leave it out: time decides'
        yield ")"
        yield f"def {_name_of_test(name, number)}(acf):"
        yield f"    kernel = acf.build().load(){'' if each.toolchain == 'Triton' else f'[{_literal(each.entry)}]'}"
        yield f"    # {visible(_call(each))}"
        yield f"    raise NotImplementedError({_literal(_UNFINISHED)})"


def _call(marked: MarkedSpecialisation) -> str:
    """How the most frequent launch is made again: tensors by their names, integers as they were."""
    launch = next(iter(marked.each.calls_by_frequency), None)
    grid = str(launch.grid) if launch else "grid"
    if marked.toolchain == "Ptxas":
        threads = 32 * int(marked.each.options.get("num_warps", 4))
        return f"kernel({grid}, {threads}, …, and two pointers of Triton's own: numpy.uint64(0), numpy.uint64(0))"
    given = dict(zip(marked.each.signature, launch.arguments if launch else (), strict=False))
    told = [str(value) if isinstance(value := given.get(name), int) else name for name in marked.each.signature]
    return f"kernel({', '.join([grid, *told])})"


def _literal(value: Any) -> str:
    if isinstance(value, dict):
        return f"{{{', '.join(f'{_literal(name)}: {_literal(inner)}' for name, inner in value.items())}}}"
    if isinstance(value, tuple):
        return f"({', '.join(map(_literal, value))}{',' if len(value) == 1 else ''})"
    return json.dumps(value) if isinstance(value, str) else repr(value)


def _as_python(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _as_python(inner) for name, inner in value.items()}
    return tuple(map(_as_python, value)) if isinstance(value, list) else value


def _rebuilt(marked: MarkedSpecialisation, launched: str, triton: str, place: Place) -> str:
    """What the marker's baseline is beside the PTX that the program's ``triton`` launched; continues after its name."""
    try:
        with TemporaryDirectory(prefix="acf-capture-") as folder:
            builder = Triton(marked.source, **marked.arguments).resolve(place)
            built = builder.build(None, Path(folder), timeout_s=_BUILD_S)
            rebuilt = built.path.with_name("kernel.ptx").read_text(encoding="utf-8")
    except CompileIQError as error:
        return f"could not be compared with the PTX that was launched: {error}"
    if ptx_sha256(launched) == ptx_sha256(rebuilt):
        return "compiles to the PTX that was launched"
    then, now = (match[1] if (match := _VERSION.search(text)) else "?" for text in (launched, rebuilt))
    if ptx_sha256(_VERSION.sub("", launched)) == ptx_sha256(_VERSION.sub("", rebuilt)):
        return (
            f"compiles to the PTX that was launched, but for the version of PTX: {now} for {then}, since Triton "
            "called another ptxas there"
        )
    return (
        f"compiles to other PTX than was launched, PTX {now} of Triton {builder.compiler.version} instead of PTX "
        f"{then} of Triton {triton}: where these are the same, the marker does not say all that decides it"
    )
