"""What a kernel is launched with: who decides where decorators, the marker and a candidate disagree."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from pytest_compileiq.errors import MarkerError
from pytest_compileiq.toolchains.triton.arguments import LaunchArguments
from pytest_compileiq.toolchains.triton.launch import DecoratedKernel, settle

OPTIONS = ("num_warps", "num_stages", "num_ctas", "maxnreg", "ptx_options", "debug")


class dtype:  # noqa: N801 - Triton's name
    pass


LANGUAGE = SimpleNamespace(float16=dtype(), float32=dtype(), dtype=dtype)


def function(*names: str, **defaults: Any) -> SimpleNamespace:
    params = [
        SimpleNamespace(
            name=name,
            has_default=name in defaults,
            default=defaults.get(name),
            is_constexpr=name.isupper() or name in OPTIONS,
        )
        for name in (*names, *defaults)
    ]
    return SimpleNamespace(__name__="kernel", params=params, arg_names=[one.name for one in params])


def tuned(wrapped: Any, *configs: dict[str, Any], prune: object = None) -> SimpleNamespace:
    made = [SimpleNamespace(all_kwargs=lambda config=config: config, pre_hook=None) for config in configs]
    return SimpleNamespace(fn=wrapped, configs=made, early_config_prune=prune, perf_model=None)


def heuristics(wrapped: Any, **values: Any) -> SimpleNamespace:
    return SimpleNamespace(fn=wrapped, values=values)


def launch(decorated: Any, **given: Any):
    asked = {
        "constexprs": {},
        "options": {},
        "config": {},
        "arguments": {},
        "kinds": {"x": "*fp32"},
        "knobs": {},
    } | given
    return settle(kernel(decorated), LaunchArguments(**asked), LANGUAGE)


def kernel(decorated: Any) -> DecoratedKernel:
    taken = DecoratedKernel.of(decorated, OPTIONS)
    assert taken is not None
    return taken


PLAIN = function("x", "n", "BLOCK", "num_stages", TWICE=False)
STAGED = function("x", num_stages=1, debug=True)
TUNED = tuned(PLAIN, {"BLOCK": 64, "num_ctas": 1}, {"BLOCK": 128, "num_warps": 8})


@pytest.mark.parametrize(
    ("given", "block", "warps"),
    [
        ({}, 64, 4),
        ({"config": {"BLOCK": 128}}, 128, 8),
        ({"constexprs": {"BLOCK": 32}}, 32, 4),
        ({"config": {"num_warps": 8}, "options": {"num_warps": 2}}, 128, 2),
        ({"constexprs": {"BLOCK": 32}, "knobs": {"config": "BLOCK=128, num_warps=8"}}, 128, 8),
        ({"knobs": {"config": "BLOCK=128, num_warps=8", "num_warps": 16}}, 128, 16),
        ({"knobs": {"BLOCK": 256}}, 256, 4),
    ],
)
def test_the_nearer_one_decides(given, block, warps):
    decided = launch(TUNED, **given)
    assert (decided.constexprs["BLOCK"], decided.options["num_warps"]) == (block, warps)


def test_an_option_that_is_also_an_argument_is_both_and_defaults_are_the_function_s():
    decided = launch(PLAIN, constexprs={"BLOCK": 64}, knobs={"num_stages": 2, "maxnreg": 64})
    assert decided.constexprs == {"BLOCK": 64, "num_stages": 2, "TWICE": False}
    assert decided.options == {"num_warps": 4, "num_stages": 2, "maxnreg": 64}
    assert not decided.remarks


def test_the_default_of_a_constexpr_is_no_launch_option_and_no_option_s_default_is_the_constexpr_s():
    decided = launch(STAGED)
    assert decided.constexprs == {"num_stages": 1, "debug": True}
    assert decided.options == {"num_warps": 4, "num_stages": 3}
    decided = launch(STAGED, options={"num_stages": 2}, knobs={"debug": False})
    assert decided.constexprs == {"num_stages": 2, "debug": False}
    assert decided.options == {"num_warps": 4, "num_stages": 2, "debug": False}


def test_heuristics_see_the_candidate_s_values_and_give_way_to_what_is_named():
    even = heuristics(
        PLAIN, TWICE=lambda args: args["n"] % args["BLOCK"] == 0, num_warps=lambda args: args["BLOCK"] // 32
    )
    given = {"constexprs": {"BLOCK": 64}, "arguments": {"n": 192}}
    decided = launch(even, **given)
    assert (decided.constexprs["TWICE"], decided.options["num_warps"]) == (True, 2)
    assert decided.remarks == ["@triton.heuristics computes TWICE=True, num_warps=2"]
    decided = launch(even, **given, knobs={"BLOCK": 128, "num_warps": 1})
    assert (decided.constexprs["TWICE"], decided.options["num_warps"]) == (False, 1)


@pytest.mark.parametrize(
    ("kind", "read", "seen"),
    [("*fp32", lambda args: args["x"] is None, False), ("i32:1", lambda args: args["x"], 1),
     ("i32", lambda args: args["BLOCK"], 64), ("*fp32", lambda args: args.get("x") is not None, True),
     ("i32:1", lambda args: args.get("x", 7), 1), ("i32", lambda args: args.get("BLOCK", 7), 64),
     ("i32", lambda args: args.get("debug", 7), 7), ("i32", lambda args: args.get("debug"), None),
     ("i32", lambda args: ("x" in args, "BLOCK" in args, "debug" in args), (True, True, False))],
)  # fmt: skip
def test_heuristics_know_what_the_signature_says(kind, read, seen):
    decided = launch(heuristics(PLAIN, TWICE=read), constexprs={"BLOCK": 64}, kinds={"x": kind})
    assert decided.constexprs["TWICE"] == seen


def test_dtypes_and_tuples_are_objects_for_the_kernel():
    decided = launch(PLAIN, constexprs={"BLOCK": ["tl.float16", [1]], "TWICE": None})
    assert decided.constexprs["BLOCK"] == (LANGUAGE.float16, (1,))
    assert decided.constexprs["TWICE"] is None


@pytest.mark.parametrize(
    ("decorated", "given", "said"),
    [
        (PLAIN, {"knobs": {"BLOKC": 1}}, r"kernel has no argument 'BLOKC' \(did you mean 'BLOCK'\?\)"),
        (PLAIN, {"options": {"maxnregs": 1}}, r"no launch option 'maxnregs' \(did you mean 'maxnreg'\?\)"),
        (PLAIN, {"options": {"ptx_options": "-g"}}, "the launch option 'ptx_options' cannot be given"),
        (PLAIN, {"constexprs": {"x": None}}, "'x' is named twice: in signature, and as a constexpr or a knob"),
        (
            PLAIN,
            {"constexprs": {"BLOCK": "tl.flaot16"}},
            r"is no dtype of triton.language \(did you mean 'float16'\?\)",
        ),
        (PLAIN, {"config": {"BLOCK": 64}}, r"kernel has no @triton\.autotune"),
        (TUNED, {"config": {"BLOCK": 32}}, "0 of the 2 configs of kernel have these values: .* such as BLOCK=64"),
        (
            heuristics(PLAIN, TWICE=lambda args: args["n"]),
            {},
            r"'TWICE' is computed from 'n': give a value, arguments=",
        ),
        (
            heuristics(PLAIN, TWICE=lambda args: args.get("n", 8)),
            {"kinds": {"n": "i32"}},
            r"'TWICE' is computed from 'n': give a value, arguments=",
        ),
        (
            heuristics(PLAIN, TWICE=lambda args: args["x"].shape),
            {},
            r"computed from x\.shape, which is not known ahead",
        ),
    ],
)
def test_what_cannot_be_decided_is_one_sentence_with_the_remedy(decorated, given, said):
    with pytest.raises(MarkerError, match=said):
        launch(decorated, **given)


@pytest.mark.parametrize("other", [None, 3, tuned(print), SimpleNamespace(fn=None)])
def test_what_wraps_no_function_of_triton_is_no_kernel(other):
    assert DecoratedKernel.of(other, OPTIONS) is None


def test_configs_that_cannot_be_written_down_are_left_out_and_named_and_equal_ones_are_one():
    twice = kernel(tuned(PLAIN, {"BLOCK": object}, {"BLOCK": 64}, {"BLOCK": 64}, prune=print))
    assert twice.configs == [{"BLOCK": 64}]
    left_out, pruned = twice.remarks()
    assert left_out.startswith(
        "space='autotune' is without the configs of @triton.autotune that set BLOCK=<class 'object'>"
    )
    assert pruned.startswith("all configs of @triton.autotune count")
