"""``@pytest.mark.tune(...)`` → one frozen, checked ``TuneSpec``."""

from __future__ import annotations

import inspect
import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pytest

from pytest_compileiq.config import MARKER_ARGUMENTS, Budget, parse_budget
from pytest_compileiq.errors import MarkerError, UserError
from pytest_compileiq.model import (
    CLOCKED,
    EXACT_OBJECTIVES,
    MOST_DRAWS,
    TAILS,
    TIMED_OBJECTIVES,
    KnobValue,
    Objective,
    Thresholds,
    Workload,
    of_entries,
)
from pytest_compileiq.spelling import did_you_mean
from pytest_compileiq.toolchains.base import Toolchain

METRICS = (
    f"a build has {', '.join(sorted(EXACT_OBJECTIVES))}; {', '.join(sorted(TIMED_OBJECTIVES))} are timed; "
    "any other metric is one that the body records"
)
DRAWS = 32
_MOST_OBJECTIVES = 4
_LONGEST_PATTERN = 1000
_ALL_BUT_EQUAL = 0.85  # difflib's ratio


def minimize(metric: str, *, at: str = "p50", of: str | None = None) -> Objective:
    """The objective of making ``metric`` smaller: ``runtime``, ``code_bytes``, a recorded metric, …

    Args:
        metric: what is measured, read from the build or recorded.
        at: ``p95`` or ``p99`` claims that tail of ``runtime`` or ``energy`` instead of the typical value. Every sample
            is then of one call, 20 or 100 of them a slot, and the metric is called ``runtime@p99``.
        of: the entry functions that an exact metric is of, by name or pattern, as ``functions=`` of a toolchain names
            them; the whole build by default. The metric is called ``registers of kernel*``.
    """
    return Objective(_of(metric if at == "p50" else f"{metric}@{at}", of), "minimize")


def maximize(metric: str, *, of: str | None = None) -> Objective:
    """The objective of making ``metric`` larger, e.g. a recorded throughput; ``of`` as for ``minimize``."""
    return Objective(_of(metric, of), "maximize")


def _of(metric: str, entries: str | None) -> str:
    return metric if entries is None else f"{metric} of {entries}"


@dataclass(frozen=True)
class TuneSpec:
    """What the marker asks for. ``space`` is None for the toolchain's default; workloads are never empty."""

    toolchain: Toolchain
    name: str
    space: Any
    where: tuple[Callable[[Mapping[str, KnobValue]], object], ...]
    workloads: tuple[Workload, ...]
    objectives: tuple[Objective, ...]
    engine: str | None
    engine_options: Mapping[str, Any]
    budget: Budget | None
    seed: int | None
    stress: int  # how many draws of acf.rng a finalist is held to; 0 for none
    repeats: bool  # whether production repeats its inputs, so that a gain may be one of remembered input
    weight: float  # how much its log-time counts beside other benchmarks' where they share a budget
    timeout_s: float
    thresholds: Thresholds
    limits: Mapping[str, int]  # metric of a build, as an objective is called → the most that it may be

    @property
    def counted(self) -> frozenset[str]:
        """The metrics of a build that it asks for, as objectives or limits."""
        limited = {of_entries(metric)[0] for metric in self.limits}
        return frozenset(objective.measured for objective in self.objectives if objective.exact) | limited


def name_within(item: pytest.Item) -> str:
    """The test's name within its file: ``TestTiles::test_k[3]``."""
    return item.nodeid.partition("::")[2]


def check_function(item: pytest.Function) -> None:
    """Check that a marked test can be a benchmark."""
    if "acf" not in item.fixturenames:
        raise MarkerError(f"{item.nodeid}: a tuned test takes the acf fixture: def {item.originalname}(acf): …")
    if inspect.iscoroutinefunction(item.function) or inspect.isasyncgenfunction(item.function):
        raise MarkerError(
            f"{item.nodeid} is async, and no event loop runs it: write def {item.originalname}(acf), and call "
            "asyncio.run(…) in it"
        )


def read_marker(mark: pytest.Mark, item_name: str) -> TuneSpec:
    """Check the marker's arguments.

    Args:
        mark: the test's ``tune`` marker.
        item_name: the test's name as ``name_within`` gives it, the source of the default ``name``.

    Raises:
        MarkerError: an argument is unknown or of the wrong kind; the message says what was expected.
    """
    kwargs = dict(mark.kwargs)
    if len(mark.args) != 1:
        raise MarkerError(
            f"tune() takes one positional argument, a toolchain such as Cc('kernel.c'); got {len(mark.args)}"
        )
    if not isinstance(mark.args[0], Toolchain):
        raise MarkerError(f"tune({mark.args[0]!r}): expected a toolchain such as Cc('kernel.c')")
    if (unknown := min(set(kwargs) - set(MARKER_ARGUMENTS), default=None)) is not None:
        compiler = type(mark.args[0])
        argument = inspect.signature(compiler).parameters.get(unknown)
        if argument is not None and argument.kind in (argument.KEYWORD_ONLY, argument.POSITIONAL_OR_KEYWORD):
            instead = f": it belongs to the compiler, {compiler.__name__}(…, {unknown}=…)"
        else:
            instead = f"{did_you_mean(unknown, MARKER_ARGUMENTS)}: expected {', '.join(MARKER_ARGUMENTS)}"
        raise MarkerError(f"tune() has no argument {unknown!r}{instead}")
    return TuneSpec(
        toolchain=mark.args[0],
        name=_name(kwargs.get("name"), item_name),
        space=kwargs.get("space"),
        where=_where(kwargs.get("where")),
        workloads=_workloads(kwargs.get("workloads")),
        objectives=_objectives(kwargs.get("objectives", (minimize("runtime"),))),
        engine=None if (engine := _checked(kwargs, "engine", "auto", _is_name, "a name")) == "auto" else engine,
        engine_options=_checked(kwargs, "engine_options", {}, lambda given: isinstance(given, Mapping), "a dict"),
        budget=_budget(kwargs.get("budget")),
        seed=_checked(kwargs, "seed", None, _is_seed, "an integer from 0 to 2**63 - 1"),
        stress=_checked(
            kwargs, "stress", DRAWS, lambda given: _is_whole(given, MOST_DRAWS),
            f"a number of draws from 0 (off) to {MOST_DRAWS}",
        ),
        repeats=_checked(
            kwargs, "repeats", False, lambda given: isinstance(given, bool),
            "True where production repeats its inputs, or False",
        ),
        weight=_number(kwargs, "weight", 1.0, 1e-6, 1e6),
        timeout_s=_number(kwargs, "timeout_s", 60.0, 0.1, 86400.0),
        thresholds=Thresholds(
            alpha=_number(kwargs, "alpha", 0.01, 1e-6, 0.2),
            min_speedup=_number(kwargs, "min_speedup", 1.005, 1.0, 1000.0),
            min_effect=_number(kwargs, "min_effect", 0.2, 0.0, 100.0),
            max_regression=_number(kwargs, "max_regression", 0.01, 0.0, 0.5),
        ),
        limits=_limits(_checked(kwargs, "limits", {}, lambda given: isinstance(given, Mapping), "a dict")),
    )  # fmt: skip


def _checked(kwargs: Mapping[str, Any], key: str, default: Any, is_fit: Callable[[Any], bool], expected: str) -> Any:
    given = kwargs.get(key, default)
    if not is_fit(given):
        raise MarkerError(f"tune({key}={given!r}): expected {expected}")
    return given


def _is_name(given: object) -> bool:
    return isinstance(given, str) and given != ""


def _is_seed(given: object) -> bool:
    return given is None or _is_whole(given, 2**63 - 1)


def _is_whole(given: object, most: float = math.inf) -> bool:
    return isinstance(given, int) and not isinstance(given, bool) and 0 <= given <= most


def _check_metric(metric: object) -> None:
    if not isinstance(metric, str) or not re.fullmatch(r"[a-z][a-z0-9_]{0,63}((@| of ).*)?", metric, re.DOTALL):
        raise MarkerError(
            f"objective {metric!r}: expected a metric's name in lower case, e.g. 'runtime' or 'code_bytes'"
        )
    metric, pattern = of_entries(metric)
    if pattern is not None:
        _check_entries(metric, pattern)
    measured, _, tail = metric.partition("@")
    if metric != measured and (tail not in TAILS or measured not in CLOCKED):
        raise MarkerError(
            f"minimize({measured!r}, at={tail!r}): expected p50, p95 or p99 of {' or '.join(sorted(CLOCKED))}; "
            "a quantile of your own is a metric to record"
        )
    known = EXACT_OBJECTIVES | TIMED_OBJECTIVES
    # A body may record any name, but one that is nearly a known metric's was meant to be that.
    if measured not in known and (meant := did_you_mean(measured, known, cutoff=_ALL_BUT_EQUAL)):
        raise MarkerError(f"objective {measured!r} is no metric{meant}: {METRICS}")


def _check_entries(metric: str, pattern: str) -> None:
    if metric not in EXACT_OBJECTIVES:
        raise MarkerError(
            f"objective {metric!r}, of={pattern[:80]!r}{did_you_mean(metric, EXACT_OBJECTIVES)}: of= takes an exact "
            f"metric, {', '.join(sorted(EXACT_OBJECTIVES))}; a time is of the whole call of measure()"
        )
    if not pattern.strip() or not pattern.isprintable() or len(pattern) > _LONGEST_PATTERN:
        raise MarkerError(
            f"objective {metric!r}, of={pattern[:80]!r}: expected an entry function's name or pattern, as in "
            "of='kernel*' or of='ns::scale<float>'"
        )


def _name(given: object, item_name: str) -> str:
    if given is not None and (
        not isinstance(given, str) or not re.fullmatch(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,199}", given)
    ):
        raise MarkerError(f"tune(name={given!r}): expected letters, digits, '.', '_' and '-', at most 200")
    if isinstance(given, str):
        return given
    path, _, parameters = item_name.partition("[")
    *classes, function = path.split("::")
    named = (name.removeprefix("Test") for name in classes)
    text = "-".join(filter(None, (*named, function.removeprefix("test_"), parameters.removesuffix("]"))))
    return re.sub(r"[^A-Za-z0-9._-]+", "-", text).strip(".-")[:200] or "unnamed"


def _where(given: object) -> tuple[Callable[[Mapping[str, KnobValue]], object], ...]:
    if given is None:
        return ()
    predicates = tuple(given) if isinstance(given, list | tuple) else (given,)
    if not predicates or not all(map(callable, predicates)):
        raise MarkerError(
            f"tune(where={given!r}): expected a predicate such as lambda k: k['-DBX='] * k['-DBY='] <= 1024, or a list"
        )
    return predicates


def _workloads(given: object) -> tuple[Workload, ...]:
    if given is None:
        return (Workload("default"),)
    if not isinstance(given, Mapping) or not given:
        raise MarkerError(f"tune(workloads={given!r}): expected a dict of names to dicts, e.g. {{'small': dict(n=64)}}")
    if all(isinstance(values, Mapping) and values.get("weight", 1) == 0 for values in given.values()):
        raise MarkerError(
            "tune(workloads=…): every weight is 0, so nothing would be measured; give one a weight above 0"
        )
    return tuple(_workload(name, values) for name, values in given.items())


def _workload(name: object, values: object) -> Workload:
    if not isinstance(name, str) or not re.fullmatch(r"[A-Za-z0-9._-]{1,100}", name):
        raise MarkerError(f"workload {name!r}: expected a name of letters, digits, '.', '_' and '-'")
    if not isinstance(values, Mapping) or not all(isinstance(key, str) for key in values):
        raise MarkerError(f"workload {name!r}: {values!r}: expected a dict of its values, e.g. dict(n=64, weight=2)")
    if reserved := sorted({"name", "values"} & set(values)):
        raise MarkerError(
            f"workload {name!r}: the value {reserved[0]!r} would hide the workload's own; call it something else"
        )
    weight = _number(dict(values), "weight", 1.0, 0.0, 1e9, of=f"workload {name!r}: ")
    return Workload(name, {key: value for key, value in values.items() if key != "weight"}, weight)


def _objectives(given: object) -> tuple[Objective, ...]:
    listed = (given,) if isinstance(given, Objective) else given
    if not isinstance(listed, Sequence) or not listed or not all(isinstance(entry, Objective) for entry in listed):
        raise MarkerError(f"tune(objectives={given!r}): expected a list such as [minimize('runtime')]")
    metrics = [objective.metric for objective in listed]
    for metric in metrics:
        _check_metric(metric)
    if len(set(metrics)) < len(metrics) or len(metrics) > _MOST_OBJECTIVES:
        raise MarkerError(
            f"tune(objectives=…): {', '.join(metrics)}: expected up to {_MOST_OBJECTIVES} different metrics"
        )
    return tuple(listed)


def _limits(given: Mapping[str, Any]) -> Mapping[str, int]:
    for metric, most in given.items():
        if not isinstance(metric, str) or of_entries(metric)[0] in TIMED_OBJECTIVES:
            raise MarkerError(f"tune(limits={{{metric!r}: …}}): expected a metric of a build, as in 'shared_bytes'")
        if not _is_whole(most):
            raise MarkerError(f"tune(limits={{{metric!r}: {most!r}}}): expected a whole number of at least 0")
    return dict(given)


def _budget(given: object) -> Budget | None:
    if given is None:
        return None
    try:
        if isinstance(given, int | str) and not isinstance(given, bool):
            return parse_budget(str(given), "tune(budget")
    except UserError:
        pass
    raise MarkerError(f"tune(budget={given!r}): expected a number of evaluations, or a time such as '30m'")


def _number(kwargs: Mapping[str, Any], key: str, default: float, low: float, high: float, of: str = "tune: ") -> float:
    value = kwargs.get(key, default)
    if isinstance(value, bool) or not isinstance(value, int | float) or math.isnan(value) or not low <= value <= high:
        raise MarkerError(f"{of}{key} = {value!r}: expected a number from {low:g} to {high:g}")
    return float(value)
