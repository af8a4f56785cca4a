"""``acf capture --validate``: the artifacts of captured kernels, tried in the program that they were captured from."""

from __future__ import annotations

import argparse
import json
import os
import shlex
import sys
from collections.abc import Iterator, Mapping, Sequence
from itertools import count
from pathlib import Path
from typing import Any

from pytest_compileiq.artifact import Artifact
from pytest_compileiq.capture.program import Program, Routed, Watched, watch
from pytest_compileiq.capture.validate import Asked, TunedKernel, record_of, routing
from pytest_compileiq.cli.locate import open_store
from pytest_compileiq.errors import BuildError, CompileIQError, EnvironmentFault, StoreError, UserError
from pytest_compileiq.in_place import InPlace
from pytest_compileiq.model import TIMED_OBJECTIVES, tail_of
from pytest_compileiq.report.in_place import record_lines, standing_text
from pytest_compileiq.rules.in_place import is_against, least_in_place, open_in
from pytest_compileiq.store.captures import KERNEL_FILE, Bundle, Kernel
from pytest_compileiq.store.lifecycle import validated
from pytest_compileiq.store.store import Store
from pytest_compileiq.system.files import read_regular
from pytest_compileiq.system.printing import complain, say
from pytest_compileiq.system.process import run_in_foreground
from pytest_compileiq.toolchains.machine_code.mutable_state import mutable_variables

_LARGEST_REPORT = 256 << 20
_SHOWN_LINES = 20
BASELINE, TUNED = 0, 1


def validate(options: argparse.Namespace, program: Program, folder: Path) -> int:
    """Replay the artifacts of the capture, run the program with their builds, keep what it says; the exit status.

    Raises:
        UserError: no artifact is of a kernel of the capture, or none can be tried.
        NotWatched: the program left no account of its calls.
    """
    store, bundle = open_store(options), Bundle(options.validate)
    artifacts = dict(_artifacts_of(store, bundle))
    if not artifacts:
        raise UserError(
            f"no artifact in {store.root} is of a kernel of {bundle.root}: write its tests with acf capture --tests, "
            "and tune them with pytest --tune"
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
        if kernel is not None and artifact.outcome == "tuned":
            yield (name, target), (kernel, artifact)


def _holding(
    store: Store, bundle: Bundle, artifacts: Mapping[tuple[str, str], tuple[str, Artifact]], folder: Path
) -> Iterator[TunedKernel]:
    """The kernels whose artifacts a run of pytest has just found to hold, with the builds of both arms."""
    items = _replayed(store, [artifact.benchmark for _, artifact in artifacts.values()], folder)
    for (name, target), (kernel, artifact) in artifacts.items():
        item = items.get(name)
        if item is None or item["target"] != target:
            complain(f"{name} ({target}) was not replayed here, so it is not tried")
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
    say(f"replaying {len(tests)} test{'' if len(tests) == 1 else 's'}: pytest {' '.join(nodeids)}")
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
    measured = {(each["device"], each["workload"]): each for each in item["measured"]}
    device, asked = "", {}
    for claim in artifact.claims:
        if tail_of(claim.objective)[0] in TIMED_OBJECTIVES and (now := measured.get((claim.device, claim.workload))):
            device = claim.device
            asked[claim.workload] = Asked(least_in_place(claim, now["speedup_low"]), now["baseline"])
    return TunedKernel(
        name=name,
        target=artifact.target,
        device=device or (artifact.claims[0].device if artifact.claims else ""),
        kernel=kernel,
        arms=arms,
        shape_of={workload: _number(params.get("shape")) for workload, params in told["workloads"].items()},
        asked=asked,
    )


def _number(shape: object) -> int | None:
    return shape if isinstance(shape, int) else None


def _tried(
    options: argparse.Namespace, program: Program, folder: Path, store: Store, kernels: Sequence[TunedKernel]
) -> int:
    status, watched = _run(program, folder / "both", routing(kernels, lambda _: None), None)
    if status:
        complain(f"{program.target} ended with status {status} while both builds made its calls in turn")
    outputs = _outputs(program, folder, kernels)
    confirmed = not status
    for kernel, routed in zip(kernels, watched.routed, strict=True):
        same = outputs[kernel.name, kernel.target]
        record = record_of(kernel, routed, program=_told(program), same_output=same, rtol=options.rtol)
        validated(store, kernel.name, kernel.target, record)
        say(f"{kernel.name}: {standing_text(record)}", *(f"  {line}" for line in record_lines(record)))
        for sentence in _remarks(routed, record):
            complain(f"{kernel.name}: {sentence}")
        confirmed = confirmed and not is_against(record) and not any(open_in(record))
    say(f"kept in {os.path.relpath(store.root)}: acf show NAME shows it, and pytest holds the artifacts to it")
    return 0 if confirmed else 1


def _told(program: Program) -> str:
    """The program as it would be typed here, whatever its interpreter's path is."""
    kinds = {"script": [], "module": ["-m"], "code": ["-c"]}
    target = program.target
    if program.kind == "script" and Path(target).is_relative_to(Path.cwd()):
        target = os.path.relpath(target)
    return shlex.join(["python", *program.options, *kinds[program.kind], target, *program.arguments])


def _run(program: Program, folder: Path, arms: Mapping[str, object], output: Path | None) -> tuple[int, Watched]:
    folder.mkdir()
    return watch(program, folder, arms=arms, output=output)


def _outputs(program: Program, folder: Path, kernels: Sequence[TunedKernel]) -> Mapping[tuple[str, str], bool | None]:
    """Artifact → whether the program ends and prints alike with all calls tuned as with none.

    None where it does not even with the same builds; where it does not, each kernel is tried alone.
    """
    made = count()

    def output(tuned: Sequence[TunedKernel]) -> tuple[int, bytes]:
        file = folder / f"output-{next(made)}"
        arms = routing(kernels, lambda kernel: TUNED if kernel in tuned else BASELINE)
        status, _ = _run(program, file.with_suffix(".run"), arms, file)
        return status, file.read_bytes()

    keys = [(kernel.name, kernel.target) for kernel in kernels]
    plain = output(())
    if output(kernels) == plain:
        return dict.fromkeys(keys, True)
    if output(()) != plain:
        complain("the program prints something else each time, so its output was not compared")
        return dict.fromkeys(keys, None)
    alone = [output([kernel]) == plain for kernel in kernels] if len(kernels) > 1 else [False]
    return dict(zip(keys, alone if not all(alone) else [False] * len(keys), strict=True))


def _remarks(routed: Routed, record: InPlace) -> Iterator[str]:
    if routed.failure:
        yield f"no call was routed: {routed.failure}"
    if not any(sum(series.calls) for series in routed.series):
        yield "the program made no call of it that could be routed"
    yield from (f"some calls were not made by both arms: {why}" for why in routed.not_compared)
    if routed.lost:
        yield f"{routed.lost} calls of several threads at once could not be told apart, and were not timed"
    if routed.raised:
        yield f"{routed.raised} calls raised an exception, and were not timed"
    if beyond := sum(routed.series[-1].calls):
        yield f"{beyond} calls were on shapes that the capture does not hold"
    yield from open_in(record)
