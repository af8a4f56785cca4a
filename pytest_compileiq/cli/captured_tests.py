"""Writes a test for each captured kernel whose source is known; never over a file that somebody may have edited."""

from __future__ import annotations

import difflib
import os
from collections.abc import Iterator, Mapping
from pathlib import Path

from pytest_compileiq.report.captured_test import captured_test, test_name
from pytest_compileiq.store.captures import Bundle, Kernel
from pytest_compileiq.system.files import replace
from pytest_compileiq.toolchains.machine_code.debug_information import built_from


def write_tests(directory: Path, bundle: Bundle, kernels: Mapping[str, Kernel]) -> Iterator[str]:
    """Write ``test_NAME.py`` for each kernel, or ``test_NAME.py.new`` beside one that differs; gives lines to print."""
    directory.mkdir(parents=True, exist_ok=True)
    is_any_written = False
    for name, kernel in kernels.items():
        text, why = _text(directory, bundle, name, kernel)
        if text is None:
            yield f"no test of {name}: {why}"
        else:
            is_any_written = True
            yield from _written(directory / f"{test_name(name)}.py", text)
    if is_any_written:
        yield (
            "macros (-D) and include directories (-I) are not known from a library: where its build gives any, "
            'like="compile_commands.json" in place of flags brings them'
        )


def _text(directory: Path, bundle: Bundle, name: str, kernel: Kernel) -> tuple[str | None, str]:
    """The test, or None and why there is none."""
    library = Path(kernel.library)
    built = built_from(library, kernel.function)
    if built is None:
        return None, f"{library.name} does not tell its source: compile it with -g, or write Captured(…) yourself"
    if built.compiler is None:
        return (
            None,
            f"{library.name} does not tell how {built.source.name} was compiled, as gcc's does: write Captured(…)",
        )
    if not built.source.is_file():
        return None, f"its source {built.source} is not here"
    if not any(call.is_exact for call in kernel.kept):
        return None, "no call of it is recorded exactly"
    if not kernel.shows_its_work:
        return None, f"nothing that it does is recorded: set {kernel.function}.restype in the program, if it returns"
    capture, source = (Path(os.path.relpath(path, directory)).as_posix() for path in (bundle.root, built.source))
    return captured_test(name, kernel, capture, source, built.flags, built.compiler), ""


def _written(path: Path, text: str) -> Iterator[str]:
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
