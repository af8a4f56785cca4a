"""Mistakes in the marker and in the body: one sentence, at setup, in the test's own failure."""

from __future__ import annotations

import re

import pytest

KERNEL_C = "int kernel(int x) { return x + 1; }\n"
HEAD = "import pytest\nfrom pytest_compileiq import Cc, choice, literal, maximize, minimize\n"
BODY = "    kernel = acf.build().load().kernel\n    assert kernel(1) == 2\n    acf.measure(lambda: kernel(1))\n"

BAD_MARKERS = {
    "no toolchain": ("", "takes one positional argument"),
    "not a toolchain": ("'kernel.c'", "expected a toolchain"),
    "unknown argument": ("Cc('kernel.c'), budgets=3", "no argument 'budgets' (did you mean 'budget'?): expected name,"),
    "a misspelt space": (
        "Cc('kernel.c'), space='defualt'",
        "space='defualt' (did you mean 'default'?): expected a dict",
    ),
    "no predicate": ("Cc('kernel.c'), where='-O < 3'", "expected a predicate such as lambda k: k['-DBX=']"),
    "a boolean for a number": ("Cc('kernel.c'), timeout_s=True", "timeout_s = True"),
    "NaN": ("Cc('kernel.c'), alpha=float('nan')", "alpha = nan"),
    "a bad name": ("Cc('kernel.c'), name='../x'", "name='../x'"),
    "no workloads": ("Cc('kernel.c'), workloads={}", "workloads={}"),
    "all weights zero": ("Cc('kernel.c'), workloads={'a': dict(weight=0)}", "every weight is 0"),
    "a bad objective": ("Cc('kernel.c'), objectives=['runtime']", "minimize('runtime')"),
    "a tail of a count": (
        "Cc('kernel.c'), objectives=[minimize('code_bytes', at='p99')]",
        "minimize('code_bytes', at='p99'): expected p50, p95 or p99 of energy or runtime",
    ),
    "a tail that is none": ("Cc('kernel.c'), objectives=[minimize('runtime', at='max')]", "at='max'"),
    "a metric's bad name": ("Cc('kernel.c'), objectives=[minimize('Run Time')]", "objective 'Run Time'"),
    "a bad budget": ("Cc('kernel.c'), budget='soon'", "budget='soon'"),
    "a missing source": ("Cc('absent.c')", "absent.c"),
    "a missing compiler": ("Cc('kernel.c', compiler='no-such-gcc')", "no-such-gcc"),
    "link-time optimisation": ("Cc('kernel.c', flags='-O2 -flto')", "-flto"),
}


@pytest.mark.parametrize("what", BAD_MARKERS)
def test_a_bad_marker_fails_its_test_with_a_sentence(project, what):
    arguments, said = BAD_MARKERS[what]
    made = project(
        {
            "kernel.c": KERNEL_C,
            "test_kernel.py": f"{HEAD}\n@pytest.mark.tune({arguments})\ndef test_kernel(acf):\n{BODY}",
        }
    )
    output = made.pytest()
    assert said in output
    assert re.search("=+ 1 (failed|error) in ", output)


def test_two_tests_that_claim_one_name_both_fail_naming_each_other(project):
    made = project({"kernel.c": KERNEL_C, "test_kernel.py": HEAD + "".join(
        f"\n\n@pytest.mark.tune(Cc('kernel.c'), name='same')\ndef test_{which}(acf):\n{BODY}" for which in ("one", "two"))})  # fmt: skip
    output = made.pytest()
    assert output.count("both claim the artifact 'same'") >= 2
    assert re.search("=+ 2 (failed|errors) in ", output)


def test_one_name_in_two_classes_is_two_artifacts_and_a_coroutine_is_refused(project):
    classes = "".join(
        f"\n\nclass Test{which}:\n    @pytest.mark.tune(Cc('kernel.c'))\n    def test_kernel(self, acf):\n        acf.build()\n"
        for which in ("One", "Two")
    )
    waiting = "\n\n@pytest.mark.tune(Cc('kernel.c'))\nasync def test_waiting(acf):\n    acf.build()\n"
    output = project({"kernel.c": KERNEL_C, "test_kernel.py": HEAD + classes + waiting}).pytest(
        "-o", "acf_missing=warn", "-v"
    )
    assert "One-kernel" in output and "Two-kernel" in output and "both claim" not in output
    assert (
        "test_waiting is async, and no event loop runs it: write def test_waiting(acf), and call asyncio.run" in output
    )


def test_acf_used_in_a_fixture_says_so(project):
    made = project({"kernel.c": KERNEL_C, "test_kernel.py": HEAD + "\n\n@pytest.fixture\ndef built(acf):\n    return acf.build()\n"
        f"\n\n@pytest.mark.tune(Cc('kernel.c'))\ndef test_kernel(built, acf):\n{BODY}"})  # fmt: skip
    assert "outside the test's body" in made.pytest("-o", "acf_missing=warn", code=1)


BAD_BODIES = {
    "measures twice": (BODY + "    acf.measure(lambda: kernel(1))\n", "called twice"),
    "measures nothing": ("    acf.build()\n", "calls acf.measure(fn)"),
    "measures no callable": ("    acf.measure(3)\n", "expected a callable"),
    "records nonsense": ("    acf.record(runtime=float('nan'))\n", "positive finite number"),
    "compares without a name": ("    acf.compare([1.0], rtol=1e-5, array=[1.0])\n", "e.g. acf.compare('out', out)"),
    "compares no numbers": ("    acf.compare('out', [None])\n", "expected an array of numbers"),
    "returns a value": (BODY + "    return 3\n", "returned a value"),
}


@pytest.mark.parametrize("what", BAD_BODIES)
def test_a_bad_body_is_told_what_the_contract_is(project, what):
    body, said = BAD_BODIES[what]
    made = project(
        {
            "kernel.c": KERNEL_C,
            "test_kernel.py": f"{HEAD}\n@pytest.mark.tune(Cc('kernel.c'))\ndef test_kernel(acf):\n{body}",
        }
    )
    assert said in made.pytest("-o", "acf_missing=warn", code=1)


def test_parameters_and_classes_and_compare_work(project):
    made = project(
        {
            "kernel.c": KERNEL_C,
            "test_kernel.py": HEAD
            + """
class TestKernel:
    @pytest.mark.parametrize("x", [1, 2])
    @pytest.mark.tune(Cc("kernel.c"), workloads={"a": dict(n=1)})
    def test_kernel(self, acf, x):
        self.mine = x
        assert acf.is_baseline and acf.path is None and acf.options == () and dict(acf.params) == {}
        assert acf.workload.n == 1 and acf.workload.name == "a"
        kernel = acf.build().load().kernel
        acf.compare("out", [kernel(x)])
        acf.measure(lambda: kernel(x))
""",
        }
    )
    output = made.pytest("-o", "acf_missing=warn", "-v", code=0)
    assert "Kernel-kernel-1" in output and "Kernel-kernel-2" in output


def test_build_that_cannot_be_loaded_is_shown_at_the_test_s_line_alone(project):
    made = project({
        "kernel.c": "int nowhere(int);\nint kernel(int x) { return nowhere(x); }\n",
        "test_kernel.py": f"{HEAD}\n@pytest.mark.tune(Cc('kernel.c'))\ndef test_kernel(acf):\n{BODY}",
    })  # fmt: skip
    output = made.pytest("--acf-check=off", code=1)
    assert re.search(r"^>    +kernel = acf\.build\(\)\.load\(\)", output, re.MULTILINE)
    assert "undefined symbol nowhere: name the source that defines it" in output
    assert output.count("kernel.py:") == 2, "the place and the summary's; no frame of the plugin"
