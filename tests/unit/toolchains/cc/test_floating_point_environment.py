"""Which sources name what environment options may change."""

from __future__ import annotations

import pytest

from pytest_compileiq.toolchains.cc.includes import named_by


@pytest.mark.parametrize(
    ("source", "options"),
    [
        (b"if (errno == EDOM) return;", {"-fno-math-errno"}),
        (b"switch (math_errhandling) {}", {"-fno-math-errno"}),
        (b"#include <fenv.h>", {"-fno-trapping-math"}),
        (b"#include <cfenv>\nextern int errno;", {"-fno-trapping-math", "-fno-math-errno"}),
        (b"x = feTestExcept(1);", {"-fno-trapping-math"}),
        (b"#pragma STDC FENV_ACCESS ON", {"-fno-trapping-math"}),
        (b"      USE, INTRINSIC :: IEEE_EXCEPTIONS", {"-fno-trapping-math"}),
        (b"_mm_setcsr(0x8040);", {"-fno-trapping-math"}),
        (b"int errnos, my_errno_; /* fenvironment */", set()),
        (b"\xff\xfe\0", set()),
    ],
)
def test_a_source_that_names_errno_or_exception_flags_keeps_them(source, options):
    assert named_by([b"float x;", source]) == options
