from types import SimpleNamespace

import pytest

from pytest_compileiq.benchmark.blast_radius import why_incomparable


@pytest.mark.parametrize(
    ("compiler", "sentence"),
    [
        ("nvcc", ": where a macro is an argument of a template, name the kernel as in instantiate=['scale<TILE>']"),
        (
            "gcc",
            ", and the other inlines it wherever it is called: instantiate what the test stands for explicitly, and name "
            "it in functions=",
        ),
    ],
)
def test_arms_with_other_functions_are_told_with_what_the_compiler_s_user_can_do(compiler, sentence):
    baseline, tuned = (SimpleNamespace(code=dict.fromkeys(code)) for code in (["k", "_Z5scaleILi16EEvPf"], ["k"]))
    benchmark = SimpleNamespace(
        builds=SimpleNamespace(get=lambda controls: baseline),
        builder=SimpleNamespace(compiler=SimpleNamespace(name=compiler)),
    )
    assert why_incomparable(benchmark, baseline) is None
    assert why_incomparable(benchmark, tuned) == f"only one arm has code for scale<16>{sentence}"
