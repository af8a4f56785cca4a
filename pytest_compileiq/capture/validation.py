"""``acf capture --validate``: the artifacts of captured kernels, tried in the program that they were captured from."""

from __future__ import annotations

import argparse
import json
import os
import shlex
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from pytest_compileiq.artifact import Artifact
from pytest_compileiq.capture.bundle import KERNEL_FILE, Bundle, CapturedKernel
from pytest_compileiq.capture.in_place import (
    InPlace,
    WorkloadInPlace,
    gain_of,
    is_against,
    is_allowed,
    is_of_calls,
    least_in_place,
    left_out,
    open_in,
    record_lines,
    slower_in,
    standing_text,
    wrong_in,
)
from pytest_compileiq.capture.program import CallAccount, NotWatched, Program, Routed, RoutedCalls
from pytest_compileiq.capture.routed_runs import Key, RoutedRun, RoutedRuns, TunedKernel
from pytest_compileiq.cli.locate import open_store
from pytest_compileiq.errors import BuildError, CompileIQError, EnvironmentFault, StoreError, UserError
from pytest_compileiq.machine_code.symbols import mutable_variables
from pytest_compileiq.model import TIMED_OBJECTIVES, sha256_hex, tail_of
from pytest_compileiq.spelling import first_of, for_shell, quantity
from pytest_compileiq.store.status import retire
from pytest_compileiq.store.store import Store
from pytest_compileiq.system.files import read_regular
from pytest_compileiq.system.printing import complain, say
from pytest_compileiq.system.process import run_in_foreground
from pytest_compileiq.timing.registry import find_device

_LARGEST_REPORT = 256 << 20
_LONGEST_PROGRAM = 1000
_SHOWN_LINES = 20


def validate(options: argparse.Namespace, program: Program, folder: Path) -> int:
    """Replay the artifacts of the capture, run the program with their builds, report the results; the exit status."""
    if not 0 <= options.rtol < 1:
        raise UserError(f"--rtol {options.rtol:g}: expected how far floats may differ, from 0 to less than 1")
    store, bundle = open_store(options), Bundle(options.validate)
    artifacts = dict(_artifacts_of(store, bundle))
    if not artifacts:
        raise UserError(
            f"no tuned artifact in {store.root} is of a kernel of {bundle.root}: write its tests with acf capture "
            "--tests, and tune them with pytest --tune"
        )
    kernels = list(_holding(store, bundle, artifacts, folder))
    if not kernels:
        raise UserError("no artifact can be tried in the program")
    is_confirmed = _try_in_program(options, program, folder, store, kernels)
    return 0 if is_confirmed and len(kernels) == len(artifacts) else 1


def _artifacts_of(store: Store, bundle: Bundle) -> Iterator[tuple[Key, tuple[str, Artifact]]]:
    """Name and target → kernel and artifact, of those that are tuned on a kernel of the capture."""
    records = {(bundle.root / name / KERNEL_FILE).resolve(): name for name in bundle.names()}
    for name, target in store.artifacts():
        try:
            artifact = store.read(name, target)
        except StoreError as error:
            complain(str(error))
            continue
        named = (path for path in artifact.fingerprint.sources if Path(path).name == KERNEL_FILE)
        paths = ((above / path).resolve() for path in named for above in store.root.absolute().parents)
        kernel = next((records[path] for path in paths if path in records), None)
        if kernel is not None and artifact.outcome != "tuned":
            complain(f"{name} ({target}) is {artifact.outcome!r}, so there are no controls to try in the program")
        elif kernel is not None:
            yield (name, target), (kernel, artifact)


def _holding(
    store: Store, bundle: Bundle, artifacts: Mapping[Key, tuple[str, Artifact]], folder: Path
) -> Iterator[TunedKernel]:
    """The kernels whose artifacts a run of pytest has just found to hold, with the builds of both arms."""
    items = _replayed(store, [artifact.benchmark for _, artifact in artifacts.values()], folder)
    for (name, target), (kernel, artifact) in artifacts.items():
        item = items.get(name)
        if item is None or item["target"] != target:
            why = f"pytest {for_shell(artifact.benchmark)} says why"
            complain(f"{name} ({target}) was not replayed, so it is not tried: {why}")
        elif not (folder / "arms" / name / "arms.json").is_file():
            complain(f"{name} does not hold, so it is not tried: {item['verdict']}: {item['message']}")
        else:
            try:
                yield _tuned_kernel(name, artifact, bundle.read(kernel), item, folder / "arms" / name)
            except (UserError, BuildError) as error:
                complain(f"{name} is not tried: {error}")


def _replayed(store: Store, nodeids: Sequence[str], folder: Path) -> Mapping[str, Mapping[str, Any]]:
    """Artifact's name → its item of the report of a normal run."""
    # Tests are named relative to the nearest directory above the store that has all their files.
    files = {nodeid.partition("::")[0] for nodeid in nodeids}
    above = (each for each in store.root.absolute().parents if all((each / file).is_file() for file in files))
    if (root := next(above, None)) is None:
        raise UserError(f"{store.root}: the tests of its artifacts are not here: {', '.join(sorted(files))}")
    report, output = folder / "report.json", folder / "pytest.txt"
    tests = [str(root / nodeid) for nodeid in dict.fromkeys(nodeids)]
    asked = [f"--acf-report={report}", f"--acf-arms={folder / 'arms'}"]
    say(f"replaying {quantity(len(tests), 'test')}: pytest {shlex.join(nodeids)}")
    run_in_foreground([sys.executable, "-m", "pytest", "-q", *asked, *tests], output)
    try:
        items = json.loads(read_regular(report, _LARGEST_REPORT))["items"]
    except (CompileIQError, OSError, ValueError, KeyError) as error:
        shown = output.read_text(errors="replace").splitlines()[-_SHOWN_LINES:]
        raise EnvironmentFault("\n".join(["pytest did not replay the artifacts:", *shown])) from error
    return {item["name"]: item for item in items}


def _tuned_kernel(
    name: str, artifact: Artifact, kernel: CapturedKernel, item: Mapping[str, Any], folder: Path
) -> TunedKernel:
    told = json.loads((folder / "arms.json").read_text(encoding="utf-8"))
    arms = folder / told["arms"]["baseline"], folder / told["arms"]["tuned"]
    for arm in arms:
        if variables := mutable_variables(arm):
            raise UserError(
                f"{kernel.function}'s source keeps {', '.join(variables[:5])} from call to call, and each build would "
                "have its own"
            )
    shape_of = {workload: _number(params.get("shape"), kernel) for workload, params in told["workloads"].items()}
    measured = {(each["device"], each["workload"], each["objective"]): each for each in item["measured"]}
    timed = [
        (claim, measured.get((claim.device, claim.workload, claim.objective)))
        for claim in artifact.claims
        if tail_of(claim.objective)[0] in TIMED_OBJECTIVES
    ]
    here = [(claim, now) for claim, now in timed if now is not None and is_of_calls(claim)]
    devices = [claim.device for claim, _ in here]
    if not devices:  # a program whose times say nothing runs on what exact claims are about, else on this processor
        of_times = [claim for claim, _ in timed]
        devices = [claim.device for claim in artifact.claims if claim not in of_times] or [find_device("cpu").name]
    return TunedKernel(
        name=name,
        target=artifact.target,
        device=devices[0],
        kernel=kernel,
        arms=arms,
        shape_of=shape_of,
        required={claim.workload: (least_in_place(claim, now["speedup_low"]), now["baseline"]) for claim, now in here},
        remarks=tuple(left_out([(claim, now is not None) for claim, now in timed], shape_of)),
    )


def _number(shape: object, kernel: CapturedKernel) -> int | None:
    """The captured shape that a workload is of; the only one where its test does not say."""
    return 0 if shape is None and len(kernel.shapes) == 1 else shape if isinstance(shape, int) else None


def _try_in_program(
    options: argparse.Namespace, program: Program, folder: Path, store: Store, kernels: Sequence[TunedKernel]
) -> bool:
    runs = RoutedRuns(program, folder, kernels)
    both = runs.make(lambda _: None)
    if both.was_interrupted:
        outputs: Mapping[Key, bool | None] = dict.fromkeys(kernel.key for kernel in kernels)
        remark: str | None = "the program was interrupted, so it was not run again"
    else:
        outputs, remark = runs.compare_output(both.status)
    if remark:
        complain(remark)
    told = list(_told_of(program, both, kernels, outputs))
    against, confirmed = [], both.status == 0 and len(told) == len(kernels)
    for kernel, routed in told:
        record = _record_of(kernel, routed, _typed(program), outputs[kernel.key], options.rtol)
        say(f"{kernel.name}: {standing_text(record)}", *(f"  {line}" for line in record_lines(record)))
        for sentence in _remarks(kernel, routed, record):
            complain(f"{kernel.name}: {sentence}")
        if is_against(record):
            against.append((kernel, record))
        confirmed &= not (is_against(record) or any(open_in(record)) or kernel.remarks)
    _withdraw(options, store, against)
    return confirmed and not (isinstance(both.watched, CallAccount) and both.watched.failure)


def _told_of(
    program: Program, both: RoutedRun, kernels: Sequence[TunedKernel], outputs: Mapping[Key, bool | None]
) -> Iterator[tuple[TunedKernel, Routed]]:
    """The kernels of which a run with both arms says something, and what; how it ended is told."""
    if isinstance(both.watched, NotWatched):
        if False not in outputs.values():
            raise both.watched
        complain(f"while both builds made its calls in turn: {both.watched}")
        for each in kernels:
            nothing = (RoutedCalls((0, 0), ()),) * (len(each.kernel.all_shapes) + 1)
            if outputs[each.key] is False:
                yield each, Routed(each.kernel.library, each.kernel.function, None, nothing, 0, (), (), 0, 0)
            else:
                complain(f"{each.name}: nothing is known of its calls")
        return
    if both.status:
        complain(f"{program.target} ended with status {both.status} while both builds made its calls in turn")
    if both.watched.failure:
        complain(f"the watching itself failed, so what it says is not complete: {both.watched.failure}")
    yield from zip(kernels, both.watched.routed, strict=True)


def _record_of(tuned: TunedKernel, routed: Routed, program: str, same_output: bool | None, rtol: float) -> InPlace:
    workloads = []
    for name, required in tuned.required.items():
        number = tuned.shape_of[name]
        is_known = number is not None and 0 <= number < len(tuned.kernel.all_shapes)
        pairs = routed.series[number or 0].pairs if is_known else ()
        workloads.append(WorkloadInPlace(name, len(pairs), *required, gain_of(pairs)))
    return InPlace(
        program=program,
        device=tuned.device,
        compared=routed.compared,
        rtol=rtol,
        differing=tuple(each for each in routed.apart if not is_allowed(each, rtol)),
        output="not compared" if same_output is None else "same" if same_output else "differs",
        workloads=tuple(workloads),
    )


def _remarks(kernel: TunedKernel, routed: Routed, record: InPlace) -> Iterator[str]:
    yield from kernel.remarks
    if routed.failure:
        yield f"no call was routed: {routed.failure}"
    if not any(sum(series.calls) for series in routed.series):
        yield "the program made no call of it that could be routed"
    yield from (f"some calls were not made by both arms: {why}" for why in routed.not_compared)
    if routed.lost:
        yield f"not timed: {quantity(routed.lost, 'call')} of several threads at once, which could not be told apart"
    if routed.raised:
        yield f"not timed: {quantity(routed.raised, 'call')} that raised an exception"
    if beyond := sum(routed.series[-1].calls):
        yield f"not timed: {quantity(beyond, 'call')} on shapes that the capture does not hold"
    yield from open_in(record)


def _withdraw(options: argparse.Namespace, store: Store, against: Sequence[tuple[TunedKernel, InPlace]]) -> None:
    if against and not options.yes:
        named = ", ".join(first_of([f"{kernel.name} ({kernel.target})" for kernel, _ in against]))
        complain(f"not retired: {named}; add --retire --yes, or tune on a better capture")
        return
    for kernel, record in against:
        said = "; ".join(first_of([*wrong_in(record), *slower_in(record)]))
        try:
            retire(store, kernel.name, kernel.target, f"{standing_text(record)}: {said}")
        except CompileIQError as error:  # the others are withdrawn all the same
            complain(str(error))
        else:
            say(f"{kernel.name} for {kernel.target} is retired: builds take the baseline")


def _typed(program: Program) -> str:
    """The program as it would be typed here, whatever its interpreter's path is; a long one by its digest."""
    kinds = {"script": [], "module": ["-m"], "code": ["-c"]}
    target = program.target
    if program.kind == "script" and Path(target).is_relative_to(Path.cwd()):
        target = os.path.relpath(target)
    words = ["python", *program.options, *kinds[program.kind], target, *program.arguments]
    told = shlex.join(words).encode(errors="backslashreplace").decode()
    return told if len(told) <= _LONGEST_PROGRAM else f"{told[:_LONGEST_PROGRAM]}… {sha256_hex(told.encode())[:8]}"
