"""Kernels that would be timed for what they do not do, each caught or named: real gcc, through ``pytest --tune``."""

from __future__ import annotations

import tomllib

import pytest

from tests.projects import make_project, naming

# Each kernel's tuned arm is fast in its own wrong way; the arms share the output.
BAD_C = """\
#include <pthread.h>
#include <unistd.h>

static int calls;
static const float *before, *from;
static float *to;
static int count;

static void twice(const float *x, float *out, int n) { for (int i = 0; i < n; i++) out[i] = x[i] * 2; }
static void *late(void *unused) { usleep(2000); twice(from, to, count); return unused; }

void kernel(const float *x, float *out, int n)
{
    calls++;
#ifndef __FAST_MATH__
    for (int k = 0; k < 8; k++)
        for (volatile int i = 0; i < n; i++)
            out[i] = x[i] * 2;
#elif defined(FIFTIETH)
    twice(x, out, calls % 50 ? n : n - 1);
    if (calls % 50 == 0)
        out[n - 1] = -1;
#elif defined(STALE)
    if (x == before)
        return;
    before = x;
    twice(x, out, n);
#elif defined(NOTHING)
    return;
#elif defined(ENQUEUES)
    pthread_t thread;
    from = x, to = out, count = n;
    if (pthread_create(&thread, 0, late, 0) == 0)
        pthread_detach(thread);
#endif
}
"""
SORT_C = """\
void sort(float *x, int n)
{
    for (int i = 1; i < n; i++) {
        float value = x[i];
        int k = i;
        for (; k > 0 && x[k - 1] > value; k--)
            x[k] = x[k - 1];
        x[k] = value;
    }
}
"""
BAD_PY = """\
import ctypes

import numpy as np
import pytest
from pytest_compileiq import Cc, literal

X = np.random.default_rng(1).random(1024, dtype=np.float32)
tune = {"space": {"-ffast-math": literal("")}}


@pytest.fixture(scope="module")
def out():
    return np.zeros_like(X)


def place(array):
    return array.ctypes.data_as(ctypes.c_void_p)


@pytest.mark.parametrize("how", [
    pytest.param(how, marks=pytest.mark.tune(Cc("bad.c", flags=f"-O1 -pthread -D{how}"), **tune))
    for how in ("FIFTIETH", "STALE", "NOTHING", "ENQUEUES")
])
def test_bad(acf, out, how):
    kernel = acf.build().load().kernel
    arguments = place(X), place(out), X.size
    acf.measure(lambda: kernel(*arguments), outputs=[out])
    assert (out == 2 * X).all()


@pytest.mark.tune(Cc("sort.c", flags="-O1"), **tune)
def test_sort(acf, out):
    sort = acf.build().load().sort
    out[:] = X
    acf.measure(lambda: sort(place(out), out.size), outputs=[out])
    assert (out == np.sort(X)).all()
"""


@pytest.mark.slow
def test_each_bad_kernel_is_caught_or_named(project):
    made = project({**naming("-ffast-math"), "bad.c": BAD_C, "sort.c": SORT_C, "test_bad.py": BAD_PY})
    output = made.pytest("--tune", "--tune-budget=1", code=1)

    def said_of(how: str) -> str:
        return "\n".join(line for line in output.splitlines() if how in line)

    for how in ("STALE", "NOTHING"):
        assert "1 × wrong: the call leaves outputs[0] as it finds it" in said_of(how)
    # On a busy machine what it enqueued is done before the look for that, and is missed or there from call to call.
    caught = ("the call only enqueues its work", "outputs[0] is not the same after every call: 1024 of 1024 values")
    assert any(each in said_of("ENQUEUES") for each in caught)
    sorts = output.split("test_bad.py::test_sort: the baseline is not usable")[1]
    assert "works in place" in sorts and "give measure(reset=…)" in sorts

    assert not list(made.root.glob("acf/*/*.acf"))  # in the search, the play-off or the proof, as it happens
    differs = "outputs[0] is not the same after every call: 1 of 1024 values, the first at index 1023, differ"
    assert differs in said_of("FIFTIETH")


SLOW_C = """\
void add(float *x, int n)
{
#ifdef __FAST_MATH__
    for (int i = 0; i < n; i++)
        x[i] += 1;
#else
    for (int k = 0; k < 20; k++)
        for (volatile int i = 0; i < n; i++)
            x[i] = x[i] + (k == 7);
#endif
}
"""
SLOW_PY = """\
import ctypes

import numpy as np
import pytest
from pytest_compileiq import Cc, literal

X = np.random.default_rng(1).random(1024, dtype=np.float32)


@pytest.mark.tune(Cc("slow.c", flags="-O1"), space={"-ffast-math": literal("")})
def test_slow(acf):
    add, x = acf.build().load().add, X.copy()
    acf.measure(lambda: add(x.ctypes.data_as(ctypes.c_void_p), x.size), outputs=[x], reset=lambda: np.copyto(x, X))
    assert (x == X + 1).all()
"""


@pytest.mark.slow
def test_a_kernel_that_works_in_place_is_proven_with_reset_and_the_claim_says_how_often_it_was_checked(project):
    made = project({**naming("-ffast-math"), "slow.c": SLOW_C, "test_slow.py": SLOW_PY})
    output = made.pytest("--tune", "--tune-budget=1", code=0)
    (claim,) = tomllib.loads(made.one("acf/slow/*.toml").read_text())["claims"]
    assert claim["checks"] == {"by": "outputs", "checks": 2 * (4 * 8 + 4 * 64), "slots": 2 * 4 * 8}
    assert "8 + 8 processes, 576 checks" in output and "not checked" not in output and "looked at:" not in output
    assert "PROVEN" in made.pytest(code=0)


SKIPS_C = """\
#include <math.h>
#include <string.h>

void kernel(const double *x, double *out, int n)
{
#ifdef __FAST_MATH__ /* right on every input, and idle where the output is as it was left */
    static double first = -1, last = -1;
    if (!memcmp(out, &first, 8) && !memcmp(out + n - 1, &last, 8))
        return;
#endif
    for (int i = 0; i < n; i++)
        out[i] = sqrt(x[i]) / (1 + x[i]);
#ifdef __FAST_MATH__
    first = out[0], last = out[n - 1];
#endif
}
"""
SKIPS_PY = """\
import ctypes

import numpy as np
import pytest
from pytest_compileiq import Cc, literal

X, OUT = np.random.default_rng(1).random(4096), np.zeros(4096)


@pytest.mark.tune(Cc("skips.c", flags="-O1 -fno-math-errno"), space={"-ffast-math": literal("")}, repeats=True)
def test_skips(acf):
    kernel = acf.build().load().kernel
    arguments = *(a.ctypes.data_as(ctypes.c_void_p) for a in (X, OUT)), X.size
    kernel(*arguments)
    np.testing.assert_allclose(OUT, np.sqrt(X) / (1 + X))
    acf.measure(lambda: kernel(*arguments), outputs=[OUT])
    np.testing.assert_allclose(OUT, np.sqrt(X) / (1 + X))
"""


def test_kernel_that_skips_work_that_is_done_already_is_never_tuned(project):
    made = project({**naming("-ffast-math"), "skips.c": SKIPS_C, "test_skips.py": SKIPS_PY})
    output = made.pytest("--tune", "--tune-budget=1", code=0)
    assert "BASELINE" in output and "TUNED" not in output, output
    assert "content loss" in output, output
    assert "on outputs that were overwritten with other bytes" in output
    assert not list(made.root.glob("acf/*/*.acf"))


def test_sampled_calls_that_nobody_checked_are_told(tuned):
    said = "the sampled calls were not checked"
    output = tuned.pytest("--acf-check=replay", code=0)
    assert said in output
    assert "acf.measure(…, outputs=[…])" in output and "with acf.record, asserts it" in output  # fits either body


# ── assertions that are off ──────────────────────────────────────────────────────────────────────────────────────

SAME_PY = "def same(a, b):\n    assert a == b\n"
TEST_SAME_PY = """\
import pytest
from pytest_compileiq import Cc, choice, minimize
from checks import same

@pytest.mark.tune(Cc("k.c", flags="-O3"), space={"-O": choice(["s"])}, objectives=[minimize("code_bytes")])
def test_k(acf):
    same(acf.build().load().total(3), 14)
"""
TOTAL_C = "int total(int n) { int sum = 0; for (int i = 1; i <= n; i++) sum += i * i; return sum; }\n"


@pytest.mark.slow
def test_assertions_that_are_off_neither_tune_nor_prove(tmp_path, monkeypatch):
    project = make_project(tmp_path, {"checks.py": SAME_PY, "test_k.py": TEST_SAME_PY, "k.c": TOTAL_C})
    search = ("--tune", "--tune-budget=3", "--tune-seed=1")
    with monkeypatch.context() as off:
        off.setenv("PYTHONOPTIMIZE", "1")
        assert "assertions are off" in project.pytest(*search, code=1, forked=False)
    assert not (tmp_path / "acf").exists()
    project.pytest(*search, code=0)
    monkeypatch.setenv("PYTHONOPTIMIZE", "1")
    said = project.pytest("-vv", forked=False)
    assert "INCONCLUSIVE" in said and "env -u PYTHONOPTIMIZE" in said and "PROVEN" not in said
