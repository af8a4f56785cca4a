"""Macros of a source as knobs: ``-DTILE=`` takes a value, ``-DUSE_LUT`` is defined or not.

The baseline's values stand in the toolchain, in ``defines=`` or as ``-D`` in its flags. A candidate's value takes the
place of the baseline's: two definitions of one macro in a command would be a warning.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence

from pytest_compileiq.errors import MarkerError
from pytest_compileiq.model import Knobs, KnobValue
from pytest_compileiq.spelling import did_you_mean
from pytest_compileiq.toolchains.base import Builder
from pytest_compileiq.toolchains.marker_values import named_values

DEFINITION = r"-D[A-Za-z_][A-Za-z0-9_]*(?:=[A-Za-z0-9_.+-]*)?"  # as a controls file may hold it
_MACRO = re.compile(r"-D([A-Za-z_][A-Za-z0-9_]*)(=?)(.*)", re.DOTALL)
# gcc, clang and nvcc: the next word is the value, whatever it looks like.
_WITH_VALUE = re.compile(r"-X[a-z][\w-]*|-mllvm|--[a-z]+-options")
_NUMBER = re.compile(r"-?(?:0|[1-9]\d{0,17})")
_AT_THE_END = re.compile(r"^#define (\w+) ?(.*?)\s*$", re.MULTILINE)
_IDENTIFIER = re.compile(rb"[A-Za-z_][A-Za-z0-9_]*")


def macro_of(option: str) -> str | None:
    """The macro that an option defines, or None: ``TILE`` of ``-DTILE=16``."""
    definition = _MACRO.fullmatch(option)
    return definition[1] if definition else None


def params_of(knobs: Knobs) -> dict[str, KnobValue]:
    """``acf.params`` of ``knobs``: those that are no options, and macros by their names."""
    return {name: value for name, value in knobs.items() if not name.startswith("-")} | macros_of(knobs)


def params_in(builder: Builder, knobs: Knobs) -> dict[str, KnobValue]:
    """``acf.params`` in an arm of these knobs: the baseline's values, replaced by them."""
    return {**builder.baseline_params, **params_of(knobs)}


def macros_of(knobs: Knobs) -> dict[str, KnobValue]:
    """The macros that ``knobs`` define, with their values; one that is only defined has the value 1."""
    macros: dict[str, KnobValue] = {}
    for knob, value in knobs.items():
        if definition := _MACRO.fullmatch(f"{knob}{value}"):
            macro, equals, text = definition.groups()
            macros[macro] = (value if text == str(value) else _typed(text)) if equals else 1
    return macros


def check_names(knobs: Iterable[str]) -> None:
    """Check that every parameter has one knob; MarkerError where a macro and another knob have one name."""
    by_name: dict[str, str] = {}
    for knob in knobs:
        name = macro_of(knob) or knob
        if other := by_name.get(name):
            raise MarkerError(f"space: {other!r} and {knob!r} would both be acf.params[{name!r}]: rename one")
        by_name[name] = knob


def baseline_macros(defines: object, flags: Sequence[str], where: str) -> tuple[tuple[str, ...], dict[str, KnobValue]]:
    """The words that ``defines`` add behind ``flags``, and all macros of the baseline as parameters of a test's body.

    Raises:
        MarkerError: it is no dict, a name is no macro's, a value is no text or number, or ``flags`` define it too.
    """
    if (values := named_values(defines)) is None:
        raise MarkerError(f"{where}(defines={defines!r}): expected a dict such as {{'TILE': 16}}")
    params: dict[str, KnobValue] = {}
    for word, is_value in _values_told(flags):
        definition = None if is_value else _MACRO.fullmatch(word)
        if definition and (definition[2] or not definition[3]):
            params[definition[1]] = _typed(definition[3]) if definition[2] else 1
        elif word.startswith("-U") and not is_value:
            params.pop(word.removeprefix("-U"), None)
    for name, value in values.items():
        if not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", name):
            raise MarkerError(
                f"{where}(defines=…): {name!r} is no macro's name: expected a dict such as {{'TILE': 16}}"
            )
        if isinstance(value, bool) or not isinstance(value, int | float | str) or not str(value).isprintable():
            raise MarkerError(f"{where}(defines=…): {name} = {value!r}: expected a number or a text; write 1 or 0")
        if any(macro_of(word) == name for word, is_value in _values_told(flags) if not is_value):
            raise MarkerError(f"{where}(defines=…): the flags define {name} too: give its value once")
        params[name] = value
    return tuple(f"-D{name}={value}" for name, value in values.items()), params


def _values_told(words: Iterable[str]) -> Iterator[tuple[str, bool]]:
    """Each word of a command, and whether it is the value of an option before it: ``-DX`` of ``-Xclang -DX``."""
    is_value = False
    for word in words:
        yield word, is_value
        is_value = not is_value and bool(_WITH_VALUE.fullmatch(word))


def without_replaced(words: Iterable[str], knobs: Knobs) -> tuple[str, ...]:
    """``words`` of the baseline without the definitions that ``knobs`` give another value."""
    macros = macros_of(knobs)
    return tuple(word for word, is_value in _values_told(words) if is_value or macro_of(word) not in macros)


def why_idle(
    probes: Sequence[Knobs],
    own: Iterable[bytes],
    others: Iterable[bytes],
    at_the_end: Callable[[Knobs], Sequence[str]],
) -> str | None:
    """Why a macro changes nothing: no file names it, or the sources define it themselves; None if none is known to.

    Args:
        probes: knobs with a value for each macro of a space.
        own, others: content of the project's files, and of all others that the compiler reads.
        at_the_end: knobs → the macros at the end of each source, as ``-dM`` prints them.
    """
    if unnamed := why_unnamed(macros_of(probes[0]), own, others):
        return unnamed
    of_each_source = zip(*map(at_the_end, probes), strict=True)
    fixed = [fixed_macros(list(zip(probes, printed, strict=True))) for printed in of_each_source]
    in_all = set.intersection(*map(set, fixed))  # another source may leave a macro alone
    if not in_all:
        return None
    macro = min(in_all)
    return (
        f"the source defines {macro} as {fixed[0][macro]}, whatever -D{macro} says: "
        f"write #ifndef {macro} before that line and #endif behind it"
    )


def why_unnamed(macros: Collection[str], own: Iterable[bytes], others: Iterable[bytes]) -> str | None:
    """Why one of ``macros`` changes nothing: it stands in no file, the project's ``own`` or the ``others``."""
    known = {name.decode() for content in own for name in _IDENTIFIER.findall(content)}
    missing = set(macros) - known
    for content in others if missing else ():
        missing -= {name.decode() for name in _IDENTIFIER.findall(content)}
    if not missing:
        return None
    macro = min(missing)
    meant = did_you_mean(macro, known, cutoff=0.75)
    return (
        f"no file that the compiler reads names the macro {macro!r}{meant}, so that -D{macro} changes nothing: "
        "name it in the source, or take it out of space="
    )


def fixed_macros(probes: Sequence[tuple[Knobs, str]]) -> dict[str, str]:
    """The macros that a source defines itself with their values, from knobs and what ``-dM`` prints at its end."""
    # Two values tell a macro that is limited (#if TILE > 16) from one that is fixed.
    given = [macros_of(macros) for macros, _ in probes]
    at_the_end = [dict(_AT_THE_END.findall(printed)) for _, printed in probes]
    fixed = {}
    for macro in set[str].intersection(*map(set, given)):  # a knob "-D" names another macro in each
        final, *others = {definitions.get(macro) for definitions in at_the_end}
        if final is not None and not others and {str(values[macro]) for values in given} != {final}:
            fixed[macro] = final
    return fixed


def _typed(text: str) -> KnobValue:
    return int(text) if _NUMBER.fullmatch(text) else text
