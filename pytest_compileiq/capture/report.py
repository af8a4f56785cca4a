"""What a program called and launched, in words. Names of functions, kernels, files and types are untrusted."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from pytest_compileiq.capture.bundle import Bundle, CapturedKernel
from pytest_compileiq.capture.launches import Launch, LaunchAccount, LaunchedKernel, Specialisation
from pytest_compileiq.capture.program import CallAccount
from pytest_compileiq.capture.ranking import Compared, RankedFunction, RankedShape, Shape
from pytest_compileiq.machine_code.names import readable
from pytest_compileiq.report.artifact import table_lines
from pytest_compileiq.spelling import quantity, time_text

_COLUMNS = ("share", "time", "calls", "a call", "function", "of")
_KERNEL_COLUMNS = ("kernel", "shapes", "calls kept", "memory", "values")
_LAUNCH_COLUMNS = ("share", "launches", "of", "Triton kernel")
_LAUNCHED_COLUMNS = ("Triton kernel", "specialisations", "launches", "PTX")
_NEGLIGIBLE = 0.05  # watching beyond this share is told as more than a side remark
_SHOWN = 8  # specialisations of a kernel
_SHOWN_CALLS = 3  # of a specialisation


def ranking_lines(
    watched: CallAccount, functions: Sequence[RankedFunction], shown: Sequence[RankedFunction]
) -> Iterator[str]:
    """Tell the ranking: the whole in a sentence, then a table of what is ``shown``."""
    if not functions:
        yield "no function of a shared library was called through ctypes or cffi"
        return
    libraries = len({function.library for function in functions})
    calls = sum(function.calls for function in functions)
    took = sum(function.share for function in functions)
    yield (
        f"{quantity(len(functions), 'function')} of {quantity(libraries, 'library')} took "
        f"{took:.1%} of {time_text(watched.elapsed_ns - watched.watching_ns)}; watching took {_added(watched):.1%} "
        f"more ({time_text(watched.watching_ns / calls)} a call), which is subtracted"
    )
    yield from table_lines(_COLUMNS, [row for function in shown for row in _rows(function)])
    if rest := functions[len(shown) :]:
        share = sum(function.share for function in rest)
        yield f"{quantity(len(rest), 'more function')} took {share:.1%}: --top and --share show more"


def _rows(function: RankedFunction) -> Iterator[tuple[str, ...]]:
    several = len(function.shapes) > 1
    if several:
        yield _row(function, readable(function.name), _from_here(function.library))
    for each in function.shapes:
        called = _called(each.shape)
        own = f"{readable(function.name)}{called}", _from_here(function.library)
        yield _row(each, *((f"  {called}", "") if several else own))


def _row(each: RankedFunction | RankedShape, name: str, library: str) -> tuple[str, ...]:
    times = time_text(each.own_ns), str(each.calls), time_text(each.own_ns / each.calls)
    return f"{each.share:.1%}", *times, name, library


def caveats(watched: CallAccount) -> Iterator[str]:
    """Tell what the ranking leaves out, or may mislead by, in a sentence each."""
    count = sum(each.calls for each in watched.calls)
    if watched.watching_ns > _NEGLIGIBLE * (watched.elapsed_ns - watched.watching_ns):
        yield (
            f"watching {quantity(count, 'call')} made the program {_added(watched):.0%} slower: it is subtracted, but "
            "where caches and threads feel it the shares may be off"
        )
    if watched.threads > 1:
        yield f"{watched.threads} threads made these calls, so shares of the elapsed time may sum to more than 100 %"
    if watched.forks:
        yield f"the program forked {quantity(watched.forks, 'time')}: the calls of those processes were not watched"
    if watched.failure:
        yield f"the watching itself failed once or more, so calls may be missing ({watched.failure})"
    yield from watched.refused


def _added(watched: CallAccount) -> float:
    return watched.watching_ns / max(watched.elapsed_ns - watched.watching_ns, 1)


def unrecorded_lines(watched: CallAccount, counting: Sequence[RankedFunction]) -> Iterator[str]:
    """Tell which functions that count have calls that cannot be recorded, and why."""
    names = {(function.library, function.name) for function in counting}
    for each in watched.unrecorded:
        if (each.library, each.name) in names:  # how many: of most calls the recorder never looks at the arguments
            yield f"not recorded: calls of {readable(each.name)} ({_from_here(each.library)}): {each.why}"


def bundle_lines(bundle: Bundle, kernels: Mapping[str, CapturedKernel]) -> Iterator[str]:
    """Tell what a capture holds."""
    if not kernels:
        yield "no call is recorded"
        return
    rows = []
    for name, kernel in kernels.items():
        kept, exact = len(kernel.kept), sum(call.is_exact for call in kernel.kept)
        values = "exact" if exact == kept else f"{exact} exact, of {kept - exact} a sample of the floats"
        memory = _memory(sum(kernel.contents.values()))
        rows.append((name, str(len(kernel.shapes)), f"{kept} of {kernel.calls}", memory, values))
    yield from table_lines(_KERNEL_COLUMNS, rows)
    for name, kernel in kernels.items():
        if any(call.is_exact for call in kernel.kept) and not kernel.shows_its_work:
            yield (
                f"{name}: no recorded call changes memory or has a result, so nothing of it can be compared: a result "
                f"is recorded where the program set {kernel.function}.restype"
            )
    yield (
        f"{bundle.root} holds data of the program: {_memory(bundle.size_bytes())} on disk, left out of git by its own "
        ".gitignore"
    )


def _memory(size_bytes: int) -> str:
    return f"{size_bytes / 1024:.1f} KiB" if size_bytes < 1 << 20 else f"{size_bytes / (1 << 20):.1f} MiB"


def check_lines(bundle: Bundle, kernels: Sequence[Compared[Shape]]) -> Iterator[str]:
    """Tell whether the program still calls what ``bundle`` holds, and what changed."""
    for kernel in kernels:
        yield from _changes(kernel, "call", "called", "on", "shape", _called)
    yield _as_captured_text(kernels, f"calls what {bundle.root} holds")


def _changes(
    kernel: Compared[Any], call: str, called: str, on: str, part: str, told: Callable[[Any], str]
) -> Iterator[str]:
    then = sum(count for _, count in kernel.captured)
    if not kernel.calls:
        yield f"{kernel.name}: no longer {called}; {quantity(then, call)} when captured"
        return
    if kernel.is_as_captured:
        all_parts, now = quantity(len(kernel.captured), part), quantity(kernel.calls, call)
        yield f"{kernel.name}: {'in' if on == 'as' else on} {all_parts} as captured; {now}, {then} when captured"
    for each, count in kernel.gone:
        yield f"{kernel.name}: no longer {called} {on} {told(each)}; {quantity(count, call)} when captured"
    for each, count in kernel.new:
        yield f"{kernel.name}: newly {called} {on} {told(each)}; {quantity(count, call)}"
    for each in kernel.changed:
        yield (
            f"{kernel.name}: {called} {on} {told(each)} with other PTX than captured: its source, Triton or its ptxas "
            "is another"
        )


def _as_captured_text(kernels: Sequence[Compared[Any]], does: str) -> str:
    if all(kernel.is_as_captured for kernel in kernels):
        return f"the program {does}"
    return f"the program no longer {does}: capture again, to another directory (--to DIR), and tune again what changed"


def _called(shape: Shape) -> str:
    return f"({', '.join(map(str, shape))})"


def launch_ranking_lines(
    account: LaunchAccount, kernels: Sequence[LaunchedKernel], shown: Sequence[LaunchedKernel]
) -> Iterator[str]:
    """Tell the ranking of Triton's kernels; nothing where none was launched."""
    if kernels:
        launches = sum(kernel.launches for kernel in kernels)
        yield (
            f"{quantity(len(kernels), 'Triton kernel')} in {quantity(launches, 'launch')}; share is of the launches, "
            "since how long a kernel takes on the GPU was not measured: a profiler of the GPU tells that"
        )
        yield from table_lines(_LAUNCH_COLUMNS, [row for kernel in shown for row in _launch_rows(kernel)])
        if rest := kernels[len(shown) :]:
            yield f"{quantity(len(rest), 'more Triton kernel')}: --top and --share show more"
    for each in account.compiled:
        if each.ptx is None:
            often = quantity(each.launches, "launch")
            yield f"not recorded: {often} of {each.function} ({_from_here(each.file)}): it {each.why}"


def _launch_rows(kernel: LaunchedKernel) -> Iterator[tuple[str, ...]]:
    yield f"{kernel.share:.1%}", str(kernel.launches), _from_here(kernel.file), kernel.function
    for each in kernel.specialisations[:_SHOWN]:
        yield "", str(each.launches), "", f"  {told_of(each)}"
        if each.ptx_options:
            yield "", "", "", f"    with ptx_options={each.ptx_options}"
        shown = each.calls_by_frequency[:_SHOWN_CALLS]
        for launch in shown:
            yield "", "", "", f"    {told_of_launch(launch, each)}"
        if len(each.calls) > _SHOWN_CALLS or each.others:
            yield "", "", "", f"    {each.launches - sum(launch.calls for launch in shown)} on others"
    if len(kernel.specialisations) > _SHOWN:
        yield "", "", "", f"  {quantity(len(kernel.specialisations) - _SHOWN, 'more specialisation')}"


def launch_caveats(account: LaunchAccount) -> Iterator[str]:
    """Tell what the ranking of Triton's kernels leaves out, in a sentence each."""
    if account.unseen:
        yield (
            f"not watched: {', '.join(account.unseen)}: Triton compiled and loaded them, and something else than its "
            "JIT launches them, as torch.compile does, or nothing"
        )
    if account.timed:
        yield f"{quantity(account.timed, 'launch')} by which @triton.autotune chose a config are not counted"
    if account.failure:
        yield f"the watching of Triton itself failed once or more, so launches may be missing ({account.failure})"


def launched_bundle_lines(bundle: Bundle, kernels: Mapping[str, LaunchedKernel]) -> Iterator[str]:
    """Tell what a capture holds of Triton's kernels; nothing where there are none."""
    if not kernels:
        return
    rows = []
    for name, kernel in kernels.items():
        ptx_bytes = sum({each.ptx.sha256: each.ptx.size for each in kernel.specialisations}.values())
        rows.append((name, str(len(kernel.specialisations)), str(kernel.launches), f"{ptx_bytes / 1024:.1f} KiB"))
    yield from table_lines(_LAUNCHED_COLUMNS, rows)
    yield (
        f"of Triton kernels {bundle.root} holds how they are specialised and launched, and no data and no time of "
        "theirs: no tensor was read"
    )


def launched_check_lines(bundle: Bundle, kernels: Sequence[Compared[Specialisation]]) -> Iterator[str]:
    """Tell whether the program still launches what ``bundle`` holds, and what changed."""
    for kernel in kernels:
        yield from _changes(kernel, "launch", "launched", "as", "specialisation", told_of)
    yield _as_captured_text(kernels, f"launches the Triton kernels that {bundle.root} holds")


def told_of(each: Specialisation) -> str:
    """A specialisation in a line: ``out *fp32:16, n i32; BLOCK=2048; num_warps=4, num_stages=3; sm_90a``."""
    parts = (
        f"its PTX alone, since it {each.why}" if each.why else "",
        ", ".join(f"{name} {_value(kind)}" for name, kind in each.signature.items()),
        ", ".join(f"{name}={_value(value)}" for name, value in each.constexprs.items()),
        ", ".join(f"{name}={_value(value)}" for name, value in each.options.items()),
        each.architecture,
    )
    return "; ".join(part for part in parts if part)


def _value(value: Any) -> str:
    return f"({', '.join(map(_value, value))})" if isinstance(value, list) else str(value)


def told_of_launch(launch: Launch, of: Specialisation) -> str:
    """Launches in a line: ``30 on grid (128,): out float32[128,1920], n 1920``."""
    arguments = itertools.zip_longest(of.signature, launch.arguments, fillvalue="?")
    told = ", ".join(f"{name} {argument}" for name, argument in arguments)
    return f"{launch.calls} on grid {launch.grid}{': ' if told else ''}{told}"


def _from_here(file: str) -> str:
    path = Path(file)
    return str(path.relative_to(Path.cwd())) if path.is_relative_to(Path.cwd()) else file
