"""``acf_runtime`` in real processes: what it counts, and how a process ends that never applied what was shipped."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from pytest_compileiq.ship import acf_runtime
from tests.exports import make_export

H200 = "NVIDIA H200"
ASK = "import acf_runtime\nacf_runtime.resolve('softmax', 'sm_90a', 'NVIDIA H200')\n"
IN_VAIN = ASK.replace("H200", "B200")


@pytest.fixture
def export(tmp_path) -> Path:
    return make_export(tmp_path / "export", {"softmax": [H200], "matmul": []}, retired=["old"])


def run(export: Path, code: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """A program beside the export, as production runs it."""
    kept = {key: value for key, value in os.environ.items() if not key.startswith(("ACF_", "PYTHONPATH"))}
    return subprocess.run(
        [sys.executable, "-S", "-c", code],
        cwd=export,
        env=kept | environment,
        capture_output=True,
        text=True,
        timeout=60,
    )


def lines_of(path: Path) -> list[dict]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_a_report_tells_applied_refused_never_asked_and_not_shipped(export):
    code = (
        ASK + IN_VAIN + "acf_runtime.resolve('sotfmax', 'sm_90a')\nimport json; print(json.dumps(acf_runtime.report()))"
    )
    report = json.loads(run(export, code).stdout)
    refusal = f"softmax: proven on {H200}, not on NVIDIA B200"
    assert report["problem"] is None and report["export"] == str(export)
    assert report["artifacts"] == {
        "matmul": {"shipped": True, "looked_for": 0, "applied": 0, "refused": {}},
        "softmax": {"shipped": True, "looked_for": 2, "applied": 1, "refused": {refusal: 1}},
        "sotfmax": {
            "shipped": False, "looked_for": 1, "applied": 0,
            "refused": {f"sotfmax: not in {export / 'manifest.json'}": 1},
        },
    }  # fmt: skip


@pytest.mark.parametrize(
    ("code", "expected", "status", "told"),
    [
        (ASK, "softmax", 0, ""),
        (ASK, "all", 86, "ACF_EXPECT=all: matmul was never applied: nobody asked for it"),
        (ASK + "acf_runtime.resolve('mat_mul', 'sm_90a')", "all", 86, "nobody asked for it, but for mat_mul, not shipped"),
        (IN_VAIN, " softmax ", 86, "softmax was never applied: refused 1x (softmax: proven on NVIDIA H200, not on NVIDIA B200)"),
        (ASK, "sotfmax", 86, "sotfmax was never applied: it is not shipped; shipped: matmul, softmax"),
        (ASK, ",", 86, "it names no artifact"),
        (IN_VAIN + "import sys; sys.exit(0)", "all", 86, "softmax was never applied"),
        (IN_VAIN + "raise ValueError('its own')", "softmax", 1, "softmax was never applied"),
        (IN_VAIN + "import sys\ntry: 1 / 0\nexcept ZeroDivisionError as e: sys.excepthook(type(e), e, None)", "softmax", 86, "softmax"),
        (IN_VAIN + "import sys; sys.last_value = ValueError()", "softmax", 86, "softmax was never applied"),
        (IN_VAIN + "import os; os._exit(0)", "softmax", 0, ""),
        (IN_VAIN, "", 0, ""),
    ],
)  # fmt: skip
def test_a_process_ends_with_86_where_what_is_expected_was_never_applied(export, code, expected, status, told):
    done = run(export, code, ACF_EXPECT=expected)
    assert done.returncode == status, done.stderr
    assert told in done.stderr and ("ACF_EXPECT" in done.stderr) is bool(told)


def test_the_handlers_and_files_of_a_process_that_fails_come_to_their_end(export):
    code = (
        "import atexit, threading, time\natexit.register(print, 'registered before')\nleft = open('left.txt', 'w'); left.write('all')\n"
        "threading.Thread(target=lambda: (time.sleep(0.05), print('thread'))).start()\n"
    )
    done = run(export, code + IN_VAIN, ACF_EXPECT="all")
    assert done.returncode == 86 and done.stdout == "thread\nregistered before\n"
    assert (export / "left.txt").read_text() == "all"


@pytest.mark.parametrize("damage", ["gone", "broken", "empty"])
def test_an_export_that_cannot_be_read_or_ships_nothing_is_no_pass(export, damage):
    manifest = export / "manifest.json"
    {
        "gone": manifest.unlink,
        "broken": lambda: manifest.write_text('{"schema": 1, "artifacts": [{"name": "softmax"}]}'),
        "empty": lambda: manifest.write_text('{"schema": 1, "artifacts": []}'),
    }[damage]()
    done = run(export, ASK, ACF_EXPECT="all")
    told = "no controls are shipped" if damage == "empty" else "manifest.json cannot be read"
    assert done.returncode == 86 and told in done.stderr


def test_vllm_45872_a_device_name_in_another_spelling_is_refused_with_a_reason_and_fails_the_process(tmp_path):
    """Its loader asked by another spelling than its 39 files had: none was found, for 14 months, and nobody knew."""
    names = [f"E={experts}" for experts in range(39)]
    export = make_export(tmp_path / "export", {name: [H200] for name in names})
    code = (
        "import acf_runtime\nfor number in range(39):\n"
        "    print(acf_runtime.resolve(f'E={number}', 'sm_90a', 'NVIDIA_H200').reason)\n"
    )
    done = run(export, code, ACF_EXPECT="all", ACF_COUNTS=str(tmp_path / "counts"))
    reason = f"proven on {H200}, not on NVIDIA_H200: the same name in another spelling; ask with '{H200}'"
    assert done.stdout.splitlines() == [f"{name}: {reason}" for name in names]
    assert done.returncode == 86 and reason in done.stderr
    *_, last = lines_of(tmp_path / "counts")
    counted = list(last["artifacts"].values())
    assert len(counted) == 39 and not any(counts["applied"] for counts in counted)
    assert run(export, code.replace("NVIDIA_H200", H200), ACF_EXPECT="all").returncode == 0


@pytest.mark.parametrize(
    ("asked", "told"),
    [
        ("nvidia-h200", "the same name in another spelling"),
        ("H200", "where that is the same, it is spelled in another way"),
        ("NVIDIA H200 141GB HBM3e", "where that is the same, it is spelled in another way"),
        ("NVIDIA B200", ""),
    ],
)
def test_a_refusal_says_how_near_the_name_is(export, asked, told):
    refused = acf_runtime.Runtime(export).resolve("softmax", "sm_90a", asked).reason
    assert refused.partition(f"not on {asked}")[2].startswith(f": {told}" if told else "")
    both = make_export(export.parent / "both", {"softmax": ["NVIDIA H200 NVL", H200]})
    assert "ask with 'NVIDIA H200'" in acf_runtime.Runtime(both).resolve("softmax", "sm_90a", "NVIDIA_H200").reason
    assert "sm_90a" in acf_runtime.Runtime(export).resolve("softmax", "sm90a").reason.partition("; ask with ")[2]


def test_many_processes_append_to_one_file_and_a_fork_counts_for_itself(export, tmp_path):
    counts = tmp_path / "counts"
    code = ASK + (
        "import os\nchildren = []\nfor _ in range(8):\n    if (child := os.fork()) == 0:\n"
        "        for _ in range(5): acf_runtime.resolve('softmax', 'sm_90a')\n        os._exit(0)\n    children.append(child)\n"
        "for child in children: os.waitpid(child, 0)\nacf_runtime.resolve('softmax', 'sm_90a')\n"
    )
    assert run(export, code, ACF_COUNTS=str(counts)).returncode == 0
    lines = lines_of(counts)
    assert len({line["process"] for line in lines}) == 9
    own = lines[-1]["process"]
    assert lines[-1]["artifacts"]["softmax"]["applied"] == 2
    # A child ended without exit handlers: what it applied is known all the same.
    assert all(line["artifacts"]["softmax"]["applied"] == 1 for line in lines if line["process"] != own)


def test_counts_that_cannot_be_written_are_a_sentence_and_stop_nothing(export, tmp_path):
    done = run(export, ASK, ACF_COUNTS=str(tmp_path / "none" / "counts"))
    assert done.returncode == 0 and done.stderr.count("\n") == 1
    assert done.stderr.startswith("acf: ACF_COUNTS=") and "cannot be written: No such file or directory" in done.stderr


def test_acf_runtime_fifo_for_counts_or_manifest_never_blocks(export, tmp_path):
    os.mkfifo(tmp_path / "counts")
    done = run(export, ASK, ACF_COUNTS=str(tmp_path / "counts"))
    assert done.returncode == 0 and done.stderr.count("\n") == 1 and "name a plain file" in done.stderr
    (export / "manifest.json").unlink()
    os.mkfifo(export / "manifest.json")
    done = run(export, ASK, ACF_EXPECT="all")
    assert done.returncode == 86 and "no regular file" in done.stderr


def test_acf_runtime_handlers_that_ask_back_do_not_stand_still(export):
    """A logging handler asks from its own thread and waits; a tracer asks at each line, as a signal's handler may."""
    code = """
import logging, sys, threading
import acf_runtime

class Handler(logging.Handler):
    def emit(self, record):
        for ask in (acf_runtime.report, lambda: acf_runtime.resolve("softmax", "sm_90a")):
            asking = threading.Thread(target=ask, daemon=True)
            asking.start()
            asking.join()

def trace(frame, event, argument):
    if frame.f_code.co_filename == acf_runtime.__file__:
        sys.settrace(None)
        acf_runtime.report()
        sys.settrace(trace)
    return trace

logging.getLogger().setLevel("INFO")
logging.getLogger().addHandler(Handler())
sys.settrace(trace)
answers = [acf_runtime.resolve("softmax", "sm_90a") for _ in range(3)]
sys.settrace(None)
print(sum(answer.path is not None for answer in answers), acf_runtime.report()["artifacts"]["softmax"]["applied"])
"""
    assert run(export, code).stdout == "3 4\n", "three answers, and the one that the handler asked for"


def test_a_hostile_name_reaches_the_console_as_text(tmp_path):
    export = make_export(tmp_path / "export", {"::error::\x1b[2J\n##[command]": []})
    done = run(export, "import acf_runtime", ACF_EXPECT="all")
    assert done.returncode == 86 and done.stderr.count("\n") == 1
    assert "\x1b" not in done.stderr and "##[" not in done.stderr and done.stderr.startswith("acf: ")


def test_the_import_loads_nothing_that_few_calls_need(export):
    heavy = {"importlib.metadata", "subprocess", "logging", "json", "hashlib", "pathlib", "platform", "email"}
    done = run(export, f"import sys, acf_runtime; print(sorted({heavy} & sys.modules.keys()))")
    assert done.stdout == "[]\n"


def test_the_copy_in_this_package_expects_nothing(tmp_path):
    code = "from pytest_compileiq.ship import acf_runtime"
    environment = os.environ | {"ACF_EXPECT": "all", "ACF_COUNTS": str(tmp_path / "counts")}
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stderr) == (0, "") and not (tmp_path / "counts").exists()


def test_counts_on_standard_error_are_one_line_at_the_end(export):
    asking = (
        ASK + "for _ in range(11): acf_runtime.resolve('softmax', 'sm_90a')\nacf_runtime.resolve('softmax', 'sm_80')\n"
    )
    done = run(export, asking, ACF_COUNTS="stderr")
    last = done.stderr.splitlines()[-1]
    assert last == "acf: applied 12, refused 1 (softmax: proven for sm_90a, not for sm_80), never asked 1"
    assert done.stderr.count("applied 12") == 1
    assert (
        run(export, "import acf_runtime\n", ACF_COUNTS="stderr").stderr == "acf: applied 0, refused 0, never asked 2\n"
    )
    assert not (export / "stderr").exists()
