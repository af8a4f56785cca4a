"""The tables of ``docs/reference/classes.md``, from the compilers' lists: ``python -m tests.class_tables`` writes them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

from pytest_compileiq.model import CONTROL_CLASSES
from pytest_compileiq.toolchains.cc.known_options import CLANG, GCC
from pytest_compileiq.toolchains.nvidia.options import NVCC, PTXAS
from pytest_compileiq.toolchains.option_classes import CONSTEXPRS, CONSTEXPRS_SOURCE, LAUNCH_OPTIONS
from pytest_compileiq.toolchains.options import Option, Unlisted

PAGE = Path(__file__).parents[1] / "docs" / "reference" / "classes.md"
BEGIN = "<!-- from the compilers' lists: python -m tests.class_tables -->\n"
_HEAD = "| option | class | source |\n| --- | --- | --- |\n"
_BY_NAME = "options that are let in by `acf_options` alone"


def tables() -> str:
    """All tables, widest classes first."""
    return "\n".join(_sections())


def page() -> str:
    """The page as it should be: its prose up to the tables, and the tables."""
    prose, begin, _ = PAGE.read_text(encoding="utf-8").partition(BEGIN)
    assert begin, f"{PAGE} has no line {BEGIN}"
    return f"{prose}{BEGIN}\n{tables()}"


def _sections() -> Iterator[str]:
    for listed, title in (
        (GCC, "gcc, g++ and gfortran"),
        (CLANG, "clang and clang++"),
        (PTXAS, "ptxas"),
        (NVCC, "nvcc"),
    ):
        yield f"## {title}\n\n{_HEAD}{_rows(listed.known)}"
        yield f"And {_BY_NAME}:\n\n{_HEAD}{_rows(listed.unlisted)}"
    constexprs = f"| every constexpr | {CONSTEXPRS} | {CONSTEXPRS_SOURCE} |\n"
    yield f"## Triton\n\n{_HEAD}{_rows(LAUNCH_OPTIONS)}{constexprs}"


def _rows(options: Iterable[Option | Unlisted]) -> str:
    widest_first = sorted(options, key=lambda each: -CONTROL_CLASSES.index(each.control_class))
    return "".join(f"| {_names(each)} | {each.control_class} | {each.source} |\n" for each in widest_first)


def _names(option: Option | Unlisted) -> str:
    if isinstance(option, Option):
        return f"`{option.name}`"
    return "`" + option.form.replace("|", r"\|") + "`"


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
