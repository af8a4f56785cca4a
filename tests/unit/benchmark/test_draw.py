"""One draw of ``acf.rng``, on Python bodies: what is run, what is judged, and who is to blame."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest

from pytest_compileiq.benchmark.body import ArmFailure, Bodies, run_draw
from pytest_compileiq.model import Workload

HALF = [0.5]
NEXT = [np.nextafter(0.5, 1)]


class Body:
    """One that compares what its three runs give, in the order of the runs: tuned, baseline, baseline."""

    def __init__(self, *outputs, **compare):
        self.outputs, self.compare, self.ran = list(outputs), compare, []

    def __call__(self, acf):
        self.ran.append((acf.arm, acf.rng.random()))
        for name, array in self.outputs[len(self.ran) - 1].items():
            acf.compare(name, array, **self.compare)


def draw(body, *, promised=False):
    benchmark = SimpleNamespace(builds=None, builder=SimpleNamespace(clock="cpu"))
    arms = {"baseline": None, "tuned": None}
    return run_draw(Bodies(benchmark, body, arms, Workload("default")), 7, bits_promised=promised)


def out(*arrays, **compare):
    return Body(*({"out": array} for array in arrays), **compare)


def test_the_tuned_arm_runs_before_the_baseline_twice_all_with_the_same_numbers():
    body = out(HALF, HALF, HALF)
    drawn = draw(body)
    assert [arm for arm, _ in body.ran] == ["tuned", "baseline", "baseline"]
    assert {number for _, number in body.ran} == {np.random.Generator(np.random.PCG64(7)).random()}
    assert (drawn.outputs, drawn.differences, drawn.spread) == (("out",), (), ())


def test_bits_that_are_promised_are_held_whatever_the_body_allows():
    with pytest.raises(
        ArmFailure, match=r"'out', element 0 is 0\.5 in the baseline .* promise the same bits"
    ) as failure:
        draw(out(NEXT, HALF, HALF, rtol=1e-6), promised=True)
    assert failure.value.arm == "tuned"
    (difference,) = draw(out(NEXT, HALF, HALF, rtol=1e-6)).differences
    assert (difference.output, difference.ulps) == ("out", 1)


def test_a_reference_does_not_hide_bits_that_are_promised():
    with pytest.raises(ArmFailure, match="promise the same bits"):
        draw(out(NEXT, HALF, HALF, reference=HALF, rtol=1), promised=True)


def test_no_promise_is_held_on_an_output_whose_bits_differ_in_the_baseline_itself():
    drawn = draw(out(NEXT, HALF, NEXT, rtol=1e-6), promised=True)
    assert len(drawn.differences) == len(drawn.spread) == 1


def test_a_baseline_that_does_not_repeat_itself_within_what_the_body_allows_is_to_blame():
    with pytest.raises(ArmFailure, match="the baseline does not repeat itself: output 'out': 1 of 1") as failure:
        draw(out(HALF, HALF, NEXT))
    assert failure.value.arm == "baseline"


def test_a_tuned_arm_that_is_off_is_to_blame_and_of_several_outputs_the_first_by_name_is_told():
    names = ("c", "a", "b")
    with pytest.raises(ArmFailure, match="output 'a'") as failure:
        draw(Body(*(dict.fromkeys(names, array) for array in (NEXT, HALF, HALF))))
    assert failure.value.arm == "tuned"


@pytest.mark.parametrize("other", [np.zeros(2), np.zeros(1, np.float32)])
def test_another_shape_or_type_is_wrong_even_where_each_arm_has_its_reference(other):
    def body(acf):
        array = np.zeros(1) if acf.arm == "baseline" else other
        acf.compare("out", array, reference=np.zeros(array.shape))

    with pytest.raises(ArmFailure, match=r"the baseline gave float64\(1,\), the tuned arm float(64\(2|32\(1),\)"):
        draw(body)


def test_errors_against_a_reference_are_kept_for_both_arms():
    assert draw(out(NEXT, HALF, HALF, reference=HALF)).errors == {"out": (1, 2)}


@pytest.mark.parametrize(("array", "reference"), [(["a"], ["a"]), ([1.0], ["a"]), (["a"], [1.0]), ([1.0], [1.0, 2.0])])
def test_what_has_no_distance_to_its_reference_is_refused_in_a_sentence(array, reference):
    with pytest.raises(ArmFailure, match=r"expected numbers in two arrays of one shape, got .* and "):
        draw(out(array, array, array, reference=reference))
