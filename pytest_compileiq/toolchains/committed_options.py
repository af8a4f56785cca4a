"""The check of committed options, the same wherever they are read, with or without the test."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pytest_compileiq.errors import StoreError
from pytest_compileiq.model import PARAMS, Knobs
from pytest_compileiq.named_options import NamedOptions
from pytest_compileiq.toolchains.cc.known_options import CLANG, GCC
from pytest_compileiq.toolchains.cc.options import render_options
from pytest_compileiq.toolchains.command.template import is_recorded_template
from pytest_compileiq.toolchains.nvidia.options import NVCC, PTXAS
from pytest_compileiq.toolchains.option_list import OptionList
from pytest_compileiq.toolchains.options_file import Render, parse_controls
from pytest_compileiq.toolchains.params import lines as params

_LISTS: Mapping[str, tuple[OptionList, Render]] = {
    "gcc": (GCC, render_options),
    "clang": (CLANG, render_options),
    "ptxas": (PTXAS, PTXAS.render),
    "nvcc": (NVCC, NVCC.render),
    "triton": (PTXAS, PTXAS.render_launch),
}


def option_list(compiler: str, command: Sequence[str]) -> OptionList | None:
    """The known options of ``compiler``, whose baseline is ``command``.

    None if only the test knows them: for ``Command``, and for third-party toolchains.
    """
    return None if compiler not in _LISTS or is_recorded_template(command) else _LISTS[compiler][0]


def check_committed(compiler: str, kind: str, data: bytes, knobs: Knobs, named: NamedOptions) -> None:
    """Check committed controls against the ``option_list`` of ``compiler``, which must have one or compile nothing.

    Raises:
        StoreError: ``data`` is not what ``knobs`` render to, or an option may not be committed.
    """
    if compiler == PARAMS:
        parse_controls(kind, data, knobs, params.render)
        return
    known, render = _LISTS[compiler]
    if reason := known.why_any_not(knobs, named):
        raise StoreError(reason)
    parse_controls(kind, data, knobs, render)
