"""The steps of ``make gpu-evidence``: what is done when, what a killed call leaves, what the exit status says."""

from __future__ import annotations

import json
import subprocess
import sys
import zipfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from bench.gpu_evidence import bundle, page, processes, rehearsal, run, wheels
from bench.gpu_evidence.kernels import CALIBRATED, KERNELS, SOURCES
from bench.gpu_evidence.processes import Surroundings, reason
from bench.gpu_evidence.runner import A_FAILURE, ALL_DONE, MORE_TO_DO, MOST_BEGUN, Outcome, Runner, Step
from bench.gpu_evidence.state import Record, State, Status
from bench.gpu_evidence.steps import Amounts, Workshop, all_steps, calibrate, pairs_of, replay, tune

DONE = Outcome(Status.DONE)


@dataclass
class Bench:
    """Steps that take virtual seconds, and what was done."""

    state: State
    now: float = 0.0
    done: list[str] = field(default_factory=list)
    said: list[str] = field(default_factory=list)

    def step(self, name: str, *outcomes: Outcome | BaseException, takes_s: float = 10, **more) -> Step:
        left = list(outcomes)

        def work(_: float) -> Outcome:
            self.now += takes_s
            self.done.append(name)
            outcome = left.pop(0) if left else DONE
            if isinstance(outcome, BaseException):
                raise outcome
            return outcome

        return Step(name, work, **more)

    def run(self, *steps: Step, seconds: float = 100, no_gpu: str = "", again: bool = False) -> int:
        runner = Runner(steps, self.state, no_gpu, say=self.said.append, clock=lambda: self.now)
        return runner.run(seconds, again=again)


@pytest.fixture
def bench(tmp_path) -> Bench:
    return Bench(State(tmp_path / "steps"))


def test_what_is_done_is_kept_and_not_done_again(bench):
    steps = [bench.step("a"), bench.step("b")]

    assert bench.run(*steps) == ALL_DONE
    assert bench.run(*steps) == ALL_DONE
    assert bench.done == ["a", "b"]
    assert bench.state.of("b") == Record(Status.DONE, seconds=10)


def test_when_the_time_is_over_there_is_more_to_do_and_the_next_call_goes_on(bench):
    steps = [bench.step("a"), bench.step("b"), bench.step("c")]

    assert bench.run(*steps, seconds=15) == MORE_TO_DO
    assert bench.said[-1] == "more to do: c; the same command goes on"
    assert bench.run(*steps, seconds=15) == ALL_DONE
    assert bench.done == ["a", "b", "c"]


def test_a_step_that_needs_more_than_is_left_waits_unless_it_is_the_first_of_its_call(bench):
    steps = [bench.step("a"), bench.step("long", needs_s=200), bench.step("short", needs_s=50)]

    assert bench.run(*steps) == MORE_TO_DO
    assert bench.done == ["a", "short"]
    assert bench.run(*steps) == ALL_DONE


def test_a_step_whose_call_was_killed_is_done_again_but_not_for_ever(bench):
    steps = [bench.step("a", *[KeyboardInterrupt()] * 2, *[Outcome(Status.PARTIAL, "too slow")] * 2)]

    for begun in (1, 2):
        with pytest.raises(KeyboardInterrupt):
            bench.run(*steps)
        assert bench.state.of("a") == Record(begun=begun)
    assert bench.run(*steps) == A_FAILURE
    assert bench.state.of("a").why == f"begun {MOST_BEGUN} times and never ended: too slow"


def test_what_adds_up_over_calls_may_take_any_number_of_them(bench):
    further = Outcome(Status.PARTIAL, "a little", further=True)
    steps = [bench.step("a", *[further] * 5)]

    assert [bench.run(*steps) for _ in range(6)] == [MORE_TO_DO] * 5 + [ALL_DONE]
    assert bench.state.of("a").seconds == 60


def test_a_failed_step_says_why_lets_the_others_run_and_is_repeated_when_asked_for(bench):
    steps = [bench.step("a", ValueError("no such file")), bench.step("b")]

    assert bench.run(*steps) == A_FAILURE
    assert bench.run(*steps) == A_FAILURE
    assert (bench.done, bench.state.of("a").why) == (["a", "b"], "ValueError: no such file")
    assert bench.run(*steps, again=True) == ALL_DONE
    assert bench.done == ["a", "b", "a"]


def test_without_a_gpu_nothing_runs_which_fails_and_with_one_all_does(bench):
    steps = [bench.step("a"), bench.step("b")]

    assert bench.run(*steps, no_gpu="no driver") == A_FAILURE
    assert bench.said == ["a: not run: no driver", "b: not run: no driver"]
    assert bench.state.of("b") == Record(Status.NOT_RUN, "no driver")
    assert bench.run(*steps) == ALL_DONE


def test_what_lacks_a_package_is_left_out_and_fails_nothing(bench):
    assert bench.run(bench.step("a", lacks="no Triton"), bench.step("b", after="a"), bench.step("c")) == ALL_DONE
    assert bench.done == ["c"]
    assert bench.state.of("b").why == "a not run: no Triton"


def test_nothing_follows_a_step_that_failed_and_all_follows_one_that_was_mended(bench):
    steps = [bench.step("a", Outcome(Status.FAILED, "wrong answer")), bench.step("b", after="a")]

    assert bench.run(*steps) == A_FAILURE
    assert bench.state.of("b") == Record(Status.NOT_RUN, "a failed: wrong answer")
    assert bench.run(*steps, again=True) == ALL_DONE


@pytest.mark.parametrize("content", ["", '{"status": "do', '{"status": "?"}', '{"status": "done", "more": 1}', "[]"])
def test_a_record_that_cannot_be_read_is_of_a_step_to_do(tmp_path, content):
    (tmp_path / "a.json").write_text(content)

    assert State(tmp_path).of("a") == Record()


def test_a_command_that_stays_too_long_is_stopped(tmp_path, monkeypatch):
    monkeypatch.setattr(processes, "ENOUGH_TO_STOP_S", 0.5)  # a shell's background ignores Ctrl-C
    command = [sys.executable, "-c", "print('begun', flush=True)\nwhile True: pass"]

    assert Surroundings({}).run(command, cwd=tmp_path, output=tmp_path / "out.txt", timeout_s=0.2) is None
    assert Surroundings({}).run(["false"], cwd=tmp_path, output=tmp_path / "out.txt", timeout_s=60) == 1


@pytest.mark.parametrize(
    ("output", "why"),
    [
        (
            "E   assert 1\nFAILED t.py::a - assert 1\nERROR t.py::b\n= 2 failed =\n",
            "FAILED t.py::a - assert 1; ERROR t.py::b",
        ),
        ("usage:\nunknown option\n\n", "unknown option"),
        ("", "it printed nothing"),
    ],
)
def test_the_reason_is_what_pytest_says_of_its_tests_else_the_last_line(tmp_path, output, why):
    (tmp_path / "out.txt").write_text(output)

    assert reason(tmp_path / "out.txt") == why


# ── the steps, by a pytest that takes ten virtual seconds ──


@dataclass(frozen=True)
class FakeShop(Workshop):
    """``answers`` are pytest's exit statuses, None where it is stopped; 0 when they are used up."""

    answers: list[int | None] = field(default_factory=list)
    asked: list[Sequence[str]] = field(default_factory=list)
    time: list[float] = field(default_factory=lambda: [0.0])

    def pytest(self, arguments: Sequence[str], *, cwd: Path, output: Path, timeout_s: float) -> int | None:
        self.time[0] += 10
        self.asked.append(arguments)
        output.write_text("FAILED it")
        code = self.answers.pop(0) if self.answers else 0
        given = {name: value for name, _, value in (argument.partition("=") for argument in arguments)}
        if code is not None:
            Path(given["--acf-report"]).write_text("{}")
        if code == 0 and "--acf-calibrate" in given:
            counts = {"trials": pairs_of(cwd) + int(given["--acf-calibrate"]), "proven": 0, "alpha": 0.01}
            (cwd / ".compileiq").mkdir(exist_ok=True)
            (cwd / ".compileiq" / "calibration.json").write_text(json.dumps({"H200": counts}))
        if "--tune" in arguments:
            (cwd / "acf").mkdir(exist_ok=True)
        return code


@pytest.fixture
def shop(tmp_path) -> Callable[..., FakeShop]:
    time = [0.0]

    def make(*answers: int | None) -> FakeShop:
        amounts = Amounts(replays=3, pairs=36, at_once=5)
        return FakeShop(tmp_path, amounts, Surroundings({}), clock=lambda: time[0], answers=list(answers), time=time)

    return make


def test_a_calibration_takes_a_few_pairs_at_a_time_and_adds_up_over_calls(shop):
    assert calibrate(shop(), CALIBRATED[0], 26) == Outcome(Status.PARTIAL, "10 of 12 pairs", further=True)
    last = shop()
    assert calibrate(last, CALIBRATED[0], 100) == Outcome(Status.DONE, "12 of 12 pairs", further=True)
    assert {"--acf-calibrate=2", "--tune-seed=10"} < set(last.asked[0])
    assert (last.home / "results" / "calibrate-stencil" / "calibration.json").exists()


def test_a_calibration_that_is_stopped_or_counts_nothing_says_so(shop):
    assert calibrate(shop(None), CALIBRATED[0], 100) == Outcome(Status.PARTIAL, "0 of 12 pairs", further=False)
    assert calibrate(shop(1), CALIBRATED[0], 100) == Outcome(Status.FAILED, "FAILED it")


def test_replays_go_on_after_the_last_that_was_complete(shop):
    assert replay(shop(0, None), KERNELS[0], 100) == Outcome(Status.PARTIAL, "1 of 3 replays", further=True)
    rest = shop()
    assert replay(rest, KERNELS[0], 100) == Outcome(Status.DONE, "3 replays")
    assert len(rest.asked) == 2


def test_a_replay_that_refutes_fails_its_step_and_is_kept(shop):
    made = shop(0, 1)

    assert replay(made, KERNELS[0], 100) == Outcome(Status.FAILED, "replay 2: FAILED it")
    assert (made.home / "results" / "replay-stencil" / "report-2.json").exists()


@pytest.mark.parametrize(("answer", "status"), [(0, Status.DONE), (1, Status.FAILED), (None, Status.PARTIAL)])
def test_a_tuning_is_done_when_pytest_ended_well(shop, answer, status):
    made = shop(answer)

    assert tune(made, KERNELS[0], 100).status is status
    assert (made.home / "results" / "tune-stencil" / "acf").exists() == (answer == 0)


def test_every_kernel_is_tuned_and_then_replayed_and_what_lacks_its_compiler_is_left_out(shop):
    steps = {step.name: step for step in all_steps(shop(), {"triton": "no Triton", "controls": "too old"})}

    assert {step.after for step in steps.values()} - {""} == {f"tune-{kernel.name}" for kernel in KERNELS}
    assert {name for name, step in steps.items() if step.lacks} == {
        f"{verb}-{kernel}" for verb in ("tune", "replay") for kernel in ("triton-matmul", "matmul-acf")
    }


def test_a_rehearsal_compares_nothing_and_keeps_apart_from_measurements(tmp_path):
    own = (SOURCES / "conftest.py").read_text()
    assert "assert_allclose" not in rehearsal.conftest(own)
    run.keep_apart(tmp_path, True)
    run.keep_apart(tmp_path, True)
    with pytest.raises(SystemExit, match=r"holds a rehearsal, and this is a measurement: give another --out"):
        run.keep_apart(tmp_path, False)


def test_a_folder_is_held_until_the_last_that_works_in_it_has_ended(tmp_path):
    with run.only_one(tmp_path) as lock:
        left_running = subprocess.Popen(["cat"], stdin=subprocess.PIPE, pass_fds=[lock])
    with pytest.raises(SystemExit, match="is in use"), run.only_one(tmp_path):
        pass
    left_running.communicate()
    with run.only_one(tmp_path):
        pass


def test_a_call_is_never_given_nine_minutes(capsys):
    assert run.parse(["--seconds=480"]).seconds == 480
    for given in ("0", "540"):
        with pytest.raises(SystemExit):
            run.parse([f"--seconds={given}"])
    assert "540: expected 1 to 480; call it again for more" in capsys.readouterr().err


def test_results_go_where_the_environment_says_and_lack_what_can_be_made_anew(tmp_path, monkeypatch):
    monkeypatch.setenv("OUT", str(tmp_path / "elsewhere"))
    for name in ("steps/a.json", "venv/bin/python", "page.md"):
        path = tmp_path / "home" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
    results = run.parse([]).results
    run.copy(tmp_path / "home", results)
    run.copy(tmp_path / "home", results)

    assert sorted(path.name for path in results.rglob("*") if path.is_file()) == ["a.json", "page.md"]


def test_steps_are_chosen_by_name_and_listed_with_what_became_of_them(bench):
    steps = [bench.step("a"), bench.step("b")]
    bench.state.keep("b", Record(Status.FAILED, "refuted"))

    assert [step.name for step in run.chosen(steps, ["b"])] == ["b"]
    assert [line.split() for line in run.listing(steps, bench.state).splitlines()] == [
        ["a", "to", "do"], ["b", "failed", "refuted"],
    ]  # fmt: skip
    with pytest.raises(SystemExit, match="there is no step 'c'; expected a, b"):
        run.chosen(steps, ["c"])


# ── the bundle ──


@pytest.mark.parametrize(
    ("name", "package"),
    [
        ("numpy>=2.0", "numpy"),
        ("nvidia-cuda-nvcc==13.3.*", "nvidia-cuda-nvcc"),
        ("nvidia_cuda_nvcc-13.3.73-py3-none-any.whl", "nvidia-cuda-nvcc"),
        ("cuda_core-1.2.2-cp312-cp312-manylinux_2_28_x86_64.whl", "cuda-core"),
        ("triton", "triton"),
    ],
)
def test_a_requirement_and_a_wheel_name_their_package(name, package):
    assert bundle.distribution(name) == package


def test_the_bundle_asks_for_what_the_project_does_without_what_is_left_out():
    wanted = [bundle.distribution(line) for line in bundle.requirements(bundle.SHORT["nvcc"])]

    assert {"numpy", "pydantic", "cuda-core", "triton"} <= set(wanted)
    assert not set(wanted) & set(bundle.SHORT["nvcc"])


def test_a_repacked_wheel_holds_the_same(tmp_path):
    wheel = tmp_path / "a-1-py3-none-any.whl"
    with zipfile.ZipFile(wheel, "w", zipfile.ZIP_DEFLATED) as made:
        made.writestr("a.py", "x = 1\n" * 999)
    bundle.repack(wheel)

    with zipfile.ZipFile(wheel) as made:
        assert made.read("a.py") == b"x = 1\n" * 999
        assert made.infolist()[0].compress_type == zipfile.ZIP_LZMA
    assert [path.name for path in tmp_path.iterdir()] == [wheel.name]


def test_without_packages_and_wheels_it_is_said_what_brings_them(tmp_path, monkeypatch):
    monkeypatch.setattr(wheels, "suffices", lambda python: False)
    with pytest.raises(SystemExit, match="give --wheels DIR"):
        wheels.environment(tmp_path, None)
    with pytest.raises(SystemExit, match="holds no wheel"):
        wheels.environment(tmp_path, tmp_path)


# ── the page ──


def test_a_page_of_nothing_says_what_did_not_run_and_why(tmp_path):
    (tmp_path / "kind").write_text("measurement")
    call = {
        "gpu": None,
        "no_gpu": "no driver",
        "machine": "m",
        "python": "3",
        "commit": "c",
        "tools": {},
        "packages": {},
    }
    (tmp_path / "machine.jsonl").write_text(json.dumps(call) + "\n")
    State(tmp_path / "steps").keep("gpu-tests", Record(Status.NOT_RUN, "no | driver"))

    said = page.Page(tmp_path).markdown()

    assert said.startswith("# GPU evidence\n")
    assert "| gpu-tests | not run | no \\| driver |  |" in said
    assert "| 1 | none: no driver |" in said
    assert said.count("Nothing yet.") == 3


def test_every_rate_of_a_rehearsal_says_so(tmp_path):
    (tmp_path / "kind").write_text("rehearsal")

    assert page.Page(tmp_path)._rate(0, 201) == (
        "0 of 201 (rehearsal)", "0.00% (rehearsal)", "0.00% to 1.82% (rehearsal)",
    )  # fmt: skip
