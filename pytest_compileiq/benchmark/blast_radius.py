"""How far the controls of one benchmark reach: what its test stands for, and which other functions they change.

All of it raises BuildError where the baseline does not build.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator

from pytest_compileiq.benchmark.benchmark import TunedBenchmark
from pytest_compileiq.machine_code.metrics import LARGEST, totals
from pytest_compileiq.machine_code.names import listed, matching, readable
from pytest_compileiq.model import BuildResult, FailureKind, of_entries
from pytest_compileiq.rules.claims import changed_neighbours
from pytest_compileiq.rules.stopping import NEIGHBOUR
from pytest_compileiq.spelling import MOST_NAMED, for_shell
from pytest_compileiq.toolchains.functions import functions_of
from pytest_compileiq.toolchains.marker_values import call_text


def why_unnamed(benchmark: TunedBenchmark) -> str | None:
    """Which name of ``functions=`` the baseline does not have, in a sentence; None where it has them all."""
    return functions_of(benchmark.builder).why_not(benchmark.builds.look(None).code)


def stood_for(benchmark: TunedBenchmark, used: Collection[str]) -> frozenset[str]:
    """What the test stands for: the functions that its toolchain names, and those taken from ``load()``."""
    return functions_of(benchmark.builder).among(benchmark.builds.look(None).code).union(used)


def decided_by_others(benchmark: TunedBenchmark, stands_for: Collection[str]) -> Iterator[str]:
    """Objectives whose largest function is one that the test does not stand for, as sentences."""
    baseline = benchmark.builds.look(None)
    own = totals(code.metrics for entry, code in baseline.code.items() if entry in stands_for)
    for objective in benchmark.exact_objectives:
        measured, pattern = of_entries(objective.metric)
        if pattern is None and measured in LARGEST and own.get(measured, 0) < baseline.metrics[measured]:
            yield (
                f"{measured} is {baseline.metrics[measured]} in a function that the test does not stand for, and at "
                f"most {own.get(measured, 0)} in its own: name the functions in the objective by of=…"
            )


def recorded_functions(benchmark: TunedBenchmark, stands_for: Collection[str]) -> tuple[str, ...]:
    """``stands_for`` as an artifact records it, where the toolchain uses ``functions=`` or ``neighbours=``."""
    return tuple(sorted(stands_for)) if functions_of(benchmark.builder).are_given else ()


def why_unfit(
    benchmark: TunedBenchmark, tuned: BuildResult, stands_for: Collection[str]
) -> tuple[FailureKind, str] | None:
    """Why this build is never measured, whatever its speed, as a candidate's failure; None where it may be."""
    if incomparable := why_incomparable(benchmark, tuned):
        return "wrong", incomparable
    if over := why_over_limit(benchmark, tuned):
        return "limit", over
    void = why_void(benchmark, tuned, stands_for)
    return (NEIGHBOUR, void) if void else None


def why_refused(benchmark: TunedBenchmark, tuned: BuildResult, stands_for: Collection[str]) -> tuple[str, str] | None:
    """Why committed controls may not stay, whatever their speed, and what helps; None where they may."""
    if void := why_void(benchmark, tuned, stands_for):
        return f"the controls {void}", remedy(benchmark, stands_for)
    over = why_over_limit(benchmark, tuned)
    return (over, f"tune anew: pytest --tune {for_shell(benchmark.nodeid)}") if over else None


def why_over_limit(benchmark: TunedBenchmark, tuned: BuildResult) -> str | None:
    """Which metric of a build is above the marker's limit, in a sentence; None where none is."""
    values = ((metric, benchmark.value_of(metric, tuned), most) for metric, most in benchmark.spec.limits.items())
    over = [f"{metric} is {value}, above the limit of {most}" for metric, value, most in values if value > most]
    return "; ".join(over) or None


def why_incomparable(benchmark: TunedBenchmark, tuned: BuildResult) -> str | None:
    """Which entry functions only one arm has, in a sentence; None where both have the same."""
    one_sided = sorted(benchmark.builds.look(None).code.keys() ^ tuned.code.keys())
    why = functions_of(benchmark.builder).one_sided
    return f"only one arm has code for {listed(one_sided, MOST_NAMED)}{why}" if one_sided else None


def why_void(benchmark: TunedBenchmark, tuned: BuildResult, stands_for: Collection[str]) -> str | None:
    """What the controls of ``tuned`` do and may not, to be read after their name; None where there is nothing."""
    functions, baseline = functions_of(benchmark.builder), benchmark.builds.look(None)
    if functions.neighbours == "allow":
        return None
    before, after = (
        {entry: code.sha256 for entry, code in built.code.items() if entry not in functions.apart}
        for built in (baseline, tuned)
    )
    beyond = changed_neighbours(before, after, stands_for)
    how = "does not take from load()" + (" or name in functions=" if functions.patterns else "")
    return f"also change {listed(beyond, MOST_NAMED)}, which the test {how}" if beyond else None


def remedy(benchmark: TunedBenchmark, stands_for: Collection[str]) -> str:
    """What to do where neighbours make candidates void: among it the marker's toolchain that allows them, to paste."""
    functions, entries = functions_of(benchmark.builder), benchmark.builds.look(None).code
    others = {_name(entry, entries, stands_for) for entry in set(stands_for) - functions.among(entries)}
    names = [*functions.patterns, *sorted(others)]
    toolchain, given = benchmark.spec.toolchain, names if len(names) > 1 else "".join(names)
    call = call_text(toolchain, functions=given, neighbours="allow") or call_text(toolchain, neighbours="allow")
    if call is None and benchmark.builder.functions is not None:
        call = f'functions={names}, neighbours="allow"'
    allowing = f"allow it in the marker, {call}, " if call is not None else ""
    return f"take these from load() in the test too, {allowing}or move the kernel to a file of its own"


def _name(entry: str, entries: Collection[str], stands_for: Collection[str]) -> str:
    """``entry`` as its source spells it, where ``functions=`` takes that for nothing that the test does not use."""
    symbol, name = entry.partition("@")[0], readable(entry).partition("@")[0]
    return name if set(matching(name, entries)) <= set(stands_for) else symbol
