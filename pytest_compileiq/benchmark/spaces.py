"""The space that a marker's ``space=`` means for one compiler: names, classes of options, dicts and opaque spaces."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pytest_compileiq.errors import MarkerError
from pytest_compileiq.model import CONTROL_CLASSES, ControlClass, Knobs, KnobValue
from pytest_compileiq.space import OpaqueSpace, Space
from pytest_compileiq.spelling import did_you_mean
from pytest_compileiq.toolchains.base import BaseSpace, Builder
from pytest_compileiq.toolchains.macros import macro_of, params_in

_BASES: Sequence[BaseSpace] = ("default", "options")


def parts_of(given: object) -> Sequence[object]:
    """What ``space=`` joins."""
    return ["default"] if given is None else given if isinstance(given, list | tuple) else [given]


def check_names(given: object, builder: Builder, nodeid: str) -> None:
    """Check that ``builder`` has the spaces that ``space=`` names, without making any.

    Raises:
        MarkerError: it has not.
    """
    for part in parts_of(given):
        if isinstance(part, str) and part not in (*_names(builder), *CONTROL_CLASSES):
            raise _no_space(part, builder, nodeid)


def space_of(given: object, builder: Builder, nodeid: str) -> Space:
    """The space that ``space=`` asks for.

    Classes of options are one space with the compiler's own, so that a knob with values of two classes stands in it
    once.

    Raises:
        MarkerError: there is no such space, or it is not usable.
    """
    parts = parts_of(given)
    classes = [name for name in CONTROL_CLASSES if name in parts]
    if not classes:
        return Space.merge(*(_space(part, builder, nodeid) for part in parts))
    base = next((name for name in reversed(_BASES) if name in parts), None)
    others = [part for part in parts if part != base and part not in classes]
    return Space.merge(
        _with_classes(base, classes, builder, nodeid), *(_space(part, builder, nodeid) for part in others)
    )


def baseline_values(builder: Builder, space: Space) -> dict[str, KnobValue]:
    """The values that knobs of ``space`` have in the baseline, and so in candidates that leave them off."""
    baseline = params_in(builder, {})
    params = {gene.name: macro_of(gene.name) or gene.name for gene in space.knob_genes}
    with_value = {knob: param for knob, param in params.items() if knob == param or knob.endswith("=")}
    return {knob: baseline[param] for knob, param in with_value.items() if param in baseline}


def is_same_value(known: KnobValue | None, value: KnobValue) -> bool:
    """Whether a knob has the value that is known: 1 and True differ."""
    return type(known) is type(value) and known == value


def without_baseline_values(knobs: Knobs, space: Space, builder: Builder) -> Knobs:
    """``knobs`` without those at the baseline's value; a group that is on as a whole stays whole."""
    known = baseline_values(builder, space)
    alone = {gene.name for gene in space.knob_genes if gene.parent is None}
    return {
        name: value for name, value in knobs.items() if name not in alone or not is_same_value(known.get(name), value)
    }


def with_baseline_values(knobs: Knobs, space: Space, builder: Builder) -> Knobs:
    """``knobs`` with what the space always has and they leave to the baseline."""
    known = baseline_values(builder, space)
    always = (gene.name for gene in space.knob_genes if gene.parent is None and gene.knockout_prob == 0)
    return {**{name: known[name] for name in always if name in known}, **knobs}


def _with_classes(base: BaseSpace | None, classes: Sequence[ControlClass], builder: Builder, nodeid: str) -> Space:
    offered = builder.option_classes or ()
    if lacking := [name for name in classes if name not in offered]:
        has = f"it has {', '.join(map(repr, offered))}" if offered else "its options have no classes here"
        raise MarkerError(
            f"{nodeid}: space={lacking[0]!r}: {builder.compiler.name} has no option of this class that this tool knows "
            f"and that the baseline's flags leave open: {has}"
        )
    return builder.space_with(base, classes)


def _space(part: object, builder: Builder, nodeid: str) -> Space:
    if part == "default":
        return _usable(builder.default_space(), builder, nodeid)
    if part == "options":
        return _usable(builder.option_space(), builder, nodeid)
    if isinstance(part, OpaqueSpace):
        return Space((), part)
    if isinstance(part, Mapping):
        return Space.from_mapping(part)
    if isinstance(part, str) and part in builder.spaces:
        return builder.spaces[part]()
    raise _no_space(part, builder, nodeid)


def _usable(space: Space | None, builder: Builder, nodeid: str) -> Space:
    if space is None or not (space.genes or space.opaque):
        raise MarkerError(f"{nodeid}: {builder.compiler.name} has no space of its own: give the marker space={{…}}")
    return space


def _names(builder: Builder) -> Sequence[str]:
    classes = () if builder.option_classes is None else CONTROL_CLASSES
    return (*_BASES, *builder.spaces, *classes)


def _no_space(part: object, builder: Builder, nodeid: str) -> MarkerError:
    names = _names(builder)
    return MarkerError(
        f"{nodeid}: space={part!r}{did_you_mean(str(part), names)}: expected a dict of knobs, "
        f"{', '.join(map(repr, names))}, PtxasSearchSpace(), NvccSearchSpace(), or a list of these"
    )
