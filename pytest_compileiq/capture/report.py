"""What a program called, in words. Names of functions, libraries and types are untrusted."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from pytest_compileiq.capture.bundle import Bundle, Kernel, data_bytes
from pytest_compileiq.capture.program import Watched
from pytest_compileiq.capture.rank import Compared, RankedFunction, Shape
from pytest_compileiq.report.artifact import table_lines
from pytest_compileiq.report.times import time_text
from pytest_compileiq.spelling import quantity

_COLUMNS = ("share", "time", "calls", "a call", "function", "of")
_KERNEL_COLUMNS = ("kernel", "shapes", "calls kept", "memory", "values")
_NEGLIGIBLE = 0.05  # watching beyond this share is told as more than a side remark


def ranking_lines(
    watched: Watched, functions: Sequence[RankedFunction], shown: Sequence[RankedFunction]
) -> Iterator[str]:
    """The ranking for a terminal: the whole in a sentence, then a table of what is ``shown``."""
    if not functions:
        yield "no function of a shared library was called through ctypes or cffi"
        return
    yield _headline(watched, functions)
    yield from table_lines(_COLUMNS, [row for function in shown for row in _rows(function)])
    rest = functions[len(shown) :]
    if rest:
        share = sum(function.share for function in rest)
        count = len(rest)
        yield f"{quantity(count, 'more function')} took {share:.1%}: --top and --share show more"


def caveats(watched: Watched) -> Iterator[str]:
    """What the ranking leaves out, or may mislead by, in a sentence each."""
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


def unrecorded_lines(watched: Watched, counting: Sequence[RankedFunction]) -> Iterator[str]:
    """Which functions that count have calls that cannot be recorded, and why.

    How many is not told: of most calls the recorder never looks at the arguments.
    """
    names = {(function.library, function.name) for function in counting}
    for each in watched.unrecorded:
        if (each.library, each.name) in names:
            yield f"not recorded: calls of {each.name} ({_place(each.library)}): {each.why}"


def bundle_lines(bundle: Bundle, kernels: Mapping[str, Kernel]) -> Iterator[str]:
    """What a capture holds."""
    if not kernels:
        yield "no call is recorded"
        return
    yield from table_lines(_KERNEL_COLUMNS, [_kernel_row(name, kernel) for name, kernel in kernels.items()])
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


def check_lines(bundle: Bundle, kernels: Sequence[Compared]) -> Iterator[str]:
    """Whether the program still calls what ``bundle`` holds, and what changed."""
    for kernel in kernels:
        yield from _changes(kernel)
    yield as_captured_text(all(kernel.is_as_captured for kernel in kernels), f"calls what {bundle.root} holds")


def as_captured_text(is_as_captured: bool, does: str) -> str:
    """Whether the program still ``does`` what it did when it was captured, and what to do if not."""
    if is_as_captured:
        return f"the program {does}"
    return f"the program no longer {does}: capture again, to another directory (--to DIR), and tune again what changed"


def _changes(kernel: Compared) -> Iterator[str]:
    captured, shapes = sum(kernel.captured.values()), len(kernel.captured)
    if not kernel.calls:
        yield f"{kernel.name}: no longer called; {quantity(captured, 'call')} when captured"
        return
    if kernel.is_as_captured:
        on = quantity(shapes, "shape")
        yield f"{kernel.name}: on {on} as captured; {quantity(kernel.calls, 'call')}, {captured} when captured"
    for shape in kernel.gone:
        calls = quantity(kernel.captured[shape], "call")
        yield f"{kernel.name}: no longer called on {_called(shape)}; {calls} when captured"
    for shape, count in kernel.new.items():
        yield f"{kernel.name}: newly called on {_called(shape)}; {quantity(count, 'call')}"


def _called(shape: Shape) -> str:
    return f"({', '.join(map(str, shape))})"


def _kernel_row(name: str, kernel: Kernel) -> tuple[str, ...]:
    kept = kernel.kept
    exact = sum(call.is_exact for call in kept)
    values = "exact" if exact == len(kept) else f"{exact} exact, of {len(kept) - exact} a sample of the floats"
    return name, str(len(kernel.shapes)), f"{len(kept)} of {kernel.calls}", _memory(data_bytes(kernel)), values


def _headline(watched: Watched, functions: Sequence[RankedFunction]) -> str:
    count, libraries = len(functions), len({function.library for function in functions})
    calls = sum(function.calls for function in functions)
    net_ns = watched.elapsed_ns - watched.watching_ns
    took = sum(function.share for function in functions)
    return (
        f"{quantity(count, 'function')} of {quantity(libraries, 'library')} took "
        f"{took:.1%} of {time_text(net_ns)}; watching took {_added(watched):.1%} more "
        f"({time_text(watched.watching_ns / calls)} a call), which is subtracted"
    )


def _added(watched: Watched) -> float:
    return watched.watching_ns / max(watched.elapsed_ns - watched.watching_ns, 1)


def _rows(function: RankedFunction) -> Iterator[tuple[str, ...]]:
    several = len(function.shapes) > 1
    if several:
        yield _row(function.share, function.own_ns, function.calls, function.name, _place(function.library))
    for each in function.shapes:
        called = _called(each.shape)
        name, library = (f"  {called}", "") if several else (f"{function.name}{called}", _place(function.library))
        yield _row(each.share, each.own_ns, each.calls, name, library)


def _row(share: float, own_ns: int, calls: int, name: str, library: str) -> tuple[str, ...]:
    return f"{share:.1%}", time_text(own_ns), str(calls), time_text(own_ns / calls), name, library


def _place(library: str) -> str:
    """The library as seen from here."""
    path = Path(library)
    return str(path.relative_to(Path.cwd())) if path.is_relative_to(Path.cwd()) else library


def _memory(size_bytes: int) -> str:
    return f"{size_bytes / 1024:.1f} KiB" if size_bytes < 1 << 20 else f"{size_bytes / (1 << 20):.1f} MiB"
