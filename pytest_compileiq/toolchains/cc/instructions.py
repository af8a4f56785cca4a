"""Counts instructions as ``objdump`` decodes them: of objects, and of each function that is not local."""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path

from pytest_compileiq.errors import BuildError, EnvironmentFault
from pytest_compileiq.machine_code.elf import global_functions
from pytest_compileiq.model import BuildResult
from pytest_compileiq.toolchains.steps import ask

_LISTING_BYTES = 64 * 2**20
_OBJECT = re.compile(r"^\S.*:     file format .*$", re.MULTILINE)
_SECTION = re.compile(r"^Disassembly of section (.+):$", re.MULTILINE)
_ADDRESS = re.compile(r"^ +([0-9a-f]+):\t", re.MULTILINE)


@dataclass(frozen=True)
class Instructions:
    """Instructions of all objects, padding included, and of each function but local ones, without its local helpers."""

    whole: int
    functions: Mapping[str, int]


def with_instructions(built: BuildResult, *, is_program: bool) -> BuildResult:
    """The build with the metric ``instructions``, where they can be counted."""
    counted = count_instructions(sorted(built.path.parent.glob("*.o")))
    if counted is None:
        return built
    own = {"main": counted.whole} if is_program else counted.functions
    code = {
        entry: replace(code, metrics={**code.metrics, "instructions": own[entry]}) if entry in own else code
        for entry, code in built.code.items()
    }
    return replace(built, code=code, metrics={**built.metrics, "instructions": counted.whole})


def count_instructions(objects: Sequence[Path]) -> Instructions | None:
    """Count the instructions of ``objects``; None where ``objdump`` is missing or cannot read them."""
    argv = ["objdump", "--disassemble", "--no-show-raw-insn", *map(str, objects)]
    try:
        listing = ask(argv, tail_bytes=_LISTING_BYTES)
        if listing.returncode != 0 or len(listing.output) >= _LISTING_BYTES:
            return None
        return _counted(listing.output, objects)
    except (EnvironmentFault, BuildError):
        return None


def _counted(listing: str, objects: Sequence[Path]) -> Instructions | None:
    parts = _split(_OBJECT, listing)
    if len(parts) != len(objects):
        return None
    whole, functions, is_clear = 0, dict[str, int](), True
    for (_, part), path in zip(parts, objects, strict=True):
        listed = [(name, [int(at, 16) for at in _ADDRESS.findall(text)]) for name, text in _split(_SECTION, part)]
        whole += sum(len(addresses) for _, addresses in listed)
        sections = dict(listed)
        is_clear = is_clear and len(sections) == len(listed)  # two sections of one name have the same addresses
        for section, function, start, end in global_functions(path):
            within = sections.get(section, [])
            own = bisect_left(within, end) - bisect_left(within, start)
            functions[function] = functions.get(function, 0) + own
    return Instructions(whole, functions if is_clear else {})


def _split(heading: re.Pattern[str], text: str) -> list[tuple[str, str]]:
    """(what the heading names, the text below it) for each heading."""
    found = list(heading.finditer(text))
    ends = [*(match.start() for match in found), len(text)]
    return [
        (match[1] if match.re.groups else match[0], text[match.end() : end])
        for match, (_, end) in zip(found, pairwise(ends), strict=True)
    ]
