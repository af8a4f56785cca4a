"""The Triton kernels that a program launched, in words. Names of kernels, arguments and files are untrusted."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from pytest_compileiq.capture.bundle import Bundle
from pytest_compileiq.capture.bundle_launches import (
    Launch,
    LaunchedKernel,
    Specialisation,
    calls_by_frequency,
    ptx_bytes,
)
from pytest_compileiq.capture.launches import Account, ComparedLaunches
from pytest_compileiq.capture.report import as_captured_text
from pytest_compileiq.report.artifact import table_lines
from pytest_compileiq.spelling import quantity

_COLUMNS = ("share", "launches", "of", "Triton kernel")
_KERNEL_COLUMNS = ("Triton kernel", "specialisations", "launches", "PTX")
_SHOWN = 8  # specialisations of a kernel
_SHOWN_CALLS = 3  # of a specialisation


def launch_ranking_lines(
    account: Account, kernels: Sequence[LaunchedKernel], shown: Sequence[LaunchedKernel]
) -> Iterator[str]:
    """The ranking of Triton's kernels for a terminal; nothing where none was launched."""
    if kernels:
        count, launches = len(kernels), sum(kernel.launches for kernel in kernels)
        yield (
            f"{quantity(count, 'Triton kernel')} in {quantity(launches, 'launch')}; share is of the launches, since "
            "how long a kernel takes on the GPU was not measured: a profiler of the GPU tells that"
        )
        yield from table_lines(_COLUMNS, [row for kernel in shown for row in _rows(kernel)])
        if rest := kernels[len(shown) :]:
            yield f"{quantity(len(rest), 'more Triton kernel')}: --top and --share show more"
    for each in account.refused:
        often = quantity(each.launches, "launch")
        yield f"not recorded: {often} of {each.function} ({_place(each.file)}): it {each.why}"


def launch_caveats(account: Account) -> Iterator[str]:
    """What the ranking of Triton's kernels leaves out, in a sentence each."""
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
    """What a capture holds of Triton's kernels; nothing where there are none."""
    if not kernels:
        return
    yield from table_lines(_KERNEL_COLUMNS, [_kernel_row(name, kernel) for name, kernel in kernels.items()])
    yield (
        f"of Triton kernels {bundle.root} holds how they are specialised and launched, and no data and no time of "
        "theirs: no tensor was read"
    )


def launched_check_lines(bundle: Bundle, kernels: Sequence[ComparedLaunches]) -> Iterator[str]:
    """Whether the program still launches what ``bundle`` holds, and what changed."""
    for kernel in kernels:
        yield from _changes(kernel)
    is_as_captured = all(kernel.is_as_captured for kernel in kernels)
    yield as_captured_text(is_as_captured, f"launches the Triton kernels that {bundle.root} holds")


def told_of(each: Specialisation) -> str:
    """A specialisation in a line: ``out *fp32:16, n i32; BLOCK=2048; num_warps=4, num_stages=3; sm_90a``."""
    parts = (
        f"its PTX alone, since it {each.why}" if each.why else "",
        ", ".join(f"{name} {_kind(kind)}" for name, kind in each.signature.items()),
        ", ".join(f"{name}={_value(value)}" for name, value in each.constexprs.items()),
        ", ".join(f"{name}={_value(value)}" for name, value in each.options.items()),
        each.architecture,
    )
    return "; ".join(part for part in parts if part)


def told_of_launch(launch: Launch, names: Sequence[str]) -> str:
    """Launches in a line: ``30 on grid (128,): out float32[128,1920], n 1920``."""
    arguments = itertools.zip_longest(names, launch.arguments, fillvalue="?")
    told = ", ".join(f"{name} {argument}" for name, argument in arguments)
    grid = f"({launch.grid[0]},)" if len(launch.grid) == 1 else f"({', '.join(map(str, launch.grid))})"
    return f"{launch.calls} on grid {grid}{': ' if told else ''}{told}"


def _rows(kernel: LaunchedKernel) -> Iterator[tuple[str, ...]]:
    yield f"{kernel.share:.1%}", str(kernel.launches), _place(kernel.file), kernel.function
    for each in kernel.specialisations[:_SHOWN]:
        yield "", str(each.launches), "", f"  {told_of(each)}"
        if each.ptx_options:
            yield "", "", "", f"    with ptx_options={each.ptx_options}"
        for launch in itertools.islice(calls_by_frequency(each), _SHOWN_CALLS):
            yield "", "", "", f"    {told_of_launch(launch, list(each.signature))}"
        if len(each.calls) > _SHOWN_CALLS or each.others:
            told = sum(launch.calls for launch in itertools.islice(calls_by_frequency(each), _SHOWN_CALLS))
            yield "", "", "", f"    {each.launches - told} on others"
    if len(kernel.specialisations) > _SHOWN:
        yield "", "", "", f"  {quantity(len(kernel.specialisations) - _SHOWN, 'more specialisation')}"


def _kernel_row(name: str, kernel: LaunchedKernel) -> tuple[str, ...]:
    return name, str(len(kernel.specialisations)), str(kernel.launches), f"{ptx_bytes(kernel) / 1024:.1f} KiB"


def _changes(kernel: ComparedLaunches) -> Iterator[str]:
    launches = sum(each.launches for each in kernel.captured)
    if not kernel.launches:
        yield f"{kernel.name}: no longer launched; {quantity(launches, 'launch')} when captured"
        return
    if kernel.is_as_captured:
        on = quantity(len(kernel.captured), "specialisation")
        yield f"{kernel.name}: in {on} as captured; {quantity(kernel.launches, 'launch')}, {launches} when captured"
    for each in kernel.gone:
        yield f"{kernel.name}: no longer launched as {told_of(each)}; {quantity(each.launches, 'launch')} when captured"
    for each in kernel.new:
        yield f"{kernel.name}: newly launched as {told_of(each)}; {quantity(each.launches, 'launch')}"
    for each in kernel.changed:
        yield (
            f"{kernel.name}: launched as {told_of(each)} with other PTX than captured: its source, Triton or its "
            "ptxas is another"
        )


def _kind(kind: Any) -> str:
    return f"({', '.join(map(_kind, kind))})" if isinstance(kind, list) else str(kind)


def _value(value: Any) -> str:
    return f"({', '.join(map(_value, value))})" if isinstance(value, list) else str(value)


def _place(file: str) -> str:
    """The file as seen from here."""
    path = Path(file)
    return str(path.relative_to(Path.cwd())) if path.is_relative_to(Path.cwd()) else file
