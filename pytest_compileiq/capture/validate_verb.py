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
from pytest_compileiq.capture.bundle import KERNEL_FILE, Bundle, Kernel
from pytest_compileiq.capture.in_place import (
    InPlace,
    is_against,
    is_of_calls,
    least_in_place,
    left_out,
    open_in,
    slower_in,
    wrong_in,
)
from pytest_compileiq.capture.in_place_report import record_lines, standing_text
from pytest_compileiq.capture.program import NotWatched, Program, Routed, Series, Watched
from pytest_compileiq.capture.validate import Asked, Run, TunedKernel, record_of, routing, runner, same_output
from pytest_compileiq.claim import Claim
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
    """Replay the artifacts of the capture, run the program with their builds, report the results; the exit status.

    Raises:
        UserError: no artifact is of a kernel of the capture, or none can be tried.
        NotWatched: the program left no account of its calls, and its output speaks against none.
    """
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
    status = _tried(options, program, folder, store, kernels)
    return status if len(kernels) == len(artifacts) else 1


def _artifacts_of(store: Store, bundle: Bundle) -> Iterator[tuple[tuple[str, str], tuple[str, Artifact]]]:
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
    store: Store, bundle: Bundle, artifacts: Mapping[tuple[str, str], tuple[str, Artifact]], folder: Path
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
    root = _rootdir(store, nodeids)
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


def _rootdir(store: Store, nodeids: Sequence[str]) -> Path:
    """What the tests are named relative to: the nearest directory above the store that has all their files."""
    files = {nodeid.partition("::")[0] for nodeid in nodeids}
    for above in store.root.absolute().parents:
        if all((above / file).is_file() for file in files):
            return above
    raise UserError(f"{store.root}: the tests of its artifacts are not here: {', '.join(sorted(files))}")


def _tuned_kernel(name: str, artifact: Artifact, kernel: Kernel, item: Mapping[str, Any], folder: Path) -> TunedKernel:
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
    timed = [(claim, measured.get((claim.device, claim.workload, claim.objective))) for claim in _timed(artifact)]
    here = [(claim, now) for claim, now in timed if now is not None and is_of_calls(claim)]
    return TunedKernel(
        name=name,
        target=artifact.target,
        device=here[0][0].device if here else _device_here(artifact),
        kernel=kernel,
        arms=arms,
        shape_of=shape_of,
        asked={
            claim.workload: Asked(least_in_place(claim, now["speedup_low"]), now["baseline"]) for claim, now in here
        },
        remarks=tuple(left_out([(claim, now is not None) for claim, now in timed], shape_of)),
    )


def _timed(artifact: Artifact) -> list[Claim]:
    return [claim for claim in artifact.claims if tail_of(claim.objective)[0] in TIMED_OBJECTIVES]


def _device_here(artifact: Artifact) -> str:
    """What a program whose times say nothing runs on: what exact claims are about, else this processor."""
    exact = [claim.device for claim in artifact.claims if claim not in _timed(artifact)]
    return exact[0] if exact else find_device("cpu").name


def _number(shape: object, kernel: Kernel) -> int | None:
    """The captured shape that a workload is of; the only one where its test does not say."""
    return 0 if shape is None and len(kernel.shapes) == 1 else shape if isinstance(shape, int) else None


def _tried(
    options: argparse.Namespace, program: Program, folder: Path, store: Store, kernels: Sequence[TunedKernel]
) -> int:
    run = runner(program, folder)
    both = run(routing(kernels, lambda _: None), None)
    if both.was_interrupted:
        outputs: Mapping[tuple[str, str], bool | None] = dict.fromkeys(map(_key, kernels))
        remark: str | None = "the program was interrupted, so it was not run again"
    else:
        outputs, remark = same_output(run, folder, kernels, both.status)
    if remark:
        complain(remark)
    told = list(_told_of(program, both, kernels, outputs))
    shown = [
        (kernel, _shown(kernel, routed, outputs[_key(kernel)], _typed(program), options.rtol))
        for kernel, routed in told
    ]
    confirmed = [not (is_against(record) or any(open_in(record)) or kernel.remarks) for kernel, record in shown]
    _withdraw(options, store, [(kernel, record) for kernel, record in shown if is_against(record)])
    ended_well = both.status == 0 and not (isinstance(both.watched, Watched) and both.watched.failure)
    return 0 if ended_well and len(told) == len(kernels) and all(confirmed) else 1


def _key(kernel: TunedKernel) -> tuple[str, str]:
    return kernel.name, kernel.target


def _told_of(
    program: Program, both: Run, kernels: Sequence[TunedKernel], outputs: Mapping[tuple[str, str], bool | None]
) -> Iterator[tuple[TunedKernel, Routed]]:
    """The kernels of which a run with both arms says something, and what; how it ended is told.

    Where it left no account of its calls, they are those whose tuned build changes the program's output.

    Raises:
        NotWatched: there is none.
    """
    if isinstance(both.watched, NotWatched):
        if False not in outputs.values():
            raise both.watched
        complain(f"while both builds made its calls in turn: {both.watched}")
        for each in kernels:
            nothing = (Series((0, 0), ()),) * (len(each.shapes) + 1)
            if outputs[_key(each)] is False:
                yield each, Routed(each.kernel.library, each.kernel.function, None, nothing, 0, (), (), 0, 0)
            else:
                complain(f"{each.name}: nothing is known of its calls")
        return
    if both.status:
        complain(f"{program.target} ended with status {both.status} while both builds made its calls in turn")
    if both.watched.failure:
        complain(f"the watching itself failed, so what it says is not complete: {both.watched.failure}")
    yield from zip(kernels, both.watched.routed, strict=True)


def _shown(kernel: TunedKernel, routed: Routed, same: bool | None, program: str, rtol: float) -> InPlace:
    """Print the result of one kernel."""
    record = record_of(kernel, routed, program=program, same_output=same, rtol=rtol)
    say(f"{kernel.name}: {standing_text(record)}", *(f"  {line}" for line in record_lines(record)))
    for sentence in _remarks(kernel, routed, record):
        complain(f"{kernel.name}: {sentence}")
    return record


def _withdraw(options: argparse.Namespace, store: Store, against: Sequence[tuple[TunedKernel, InPlace]]) -> None:
    """Retire contradicted artifacts with ``--retire --yes``; else say how."""
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
