"""Which words let a build of ptxas or nvcc be cached: those on a list, and no others."""

from __future__ import annotations

import re
from contextlib import nullcontext

import pytest

from pytest_compileiq.rules.build_key import NotModelled
from pytest_compileiq.toolchains.nvidia.cacheable import expect_modelled_by


@pytest.mark.parametrize(
    "words",
    [
        "-gencode=arch=compute_90a,code=sm_90a -O3 -std=c++20 --expt-relaxed-constexpr --use_fast_math -lineinfo",
        "-Xptxas -v,-O3,--warn-on-spills -Xptxas=--register-usage-level=5 --maxrregcount=64 -maxrregcount 96",
        "-U__CUDA_NO_HALF_OPERATORS__ -DTILE=64 -Iinc -isystem=/opt/torch/include -include=a.h -x=cu -Xcompiler -fPIC",
        "--fmad=false --ftz true -prec-div false -O 2 --restrict -w -diag-suppress 177,20012",
        "-std c++17 -frandom-seed=0x12ab --ptxas-options=-v --threads 4 --compiler-options -fPIC",
    ],
)
def test_what_reads_nothing_but_by_the_preprocessor_is_modelled(words: str) -> None:
    expect_modelled_by("nvcc", words.split())


@pytest.mark.parametrize(
    "word",
    [
        "-rdc=true", "-ccbin=/opt/wrapper", "-Xcicc=-load", "-Xnvlink=x", "-Xptxas=--options-file=x", "-optf=x", "-dlto",
        "-Xptxas=-v,--options-file=x", "-Xptxas=--input-as-string=x", "--split-compile=4", "-lfoo", "-I", "-include=",
        "-gencode=arch=compute_90a,code=[sm_90a,compute_90a]", "kernel.cu", "",
    ],
)  # fmt: skip
def test_what_is_on_no_list_is_named(word: str) -> None:
    with pytest.raises(NotModelled, match=f"^{re.escape(word)} is not modelled$"):
        expect_modelled_by("nvcc", ["-O3", word])


@pytest.mark.parametrize(
    ("words", "unknown"),
    [
        ("-arch=sm_90a -v -O3 --maxrregcount=64 -lineinfo -dlcm=ca --register-usage-level=5 --return-at-end", None),
        ("-arch=sm_90a --sanitize=memcheck", "--sanitize=memcheck"),
        ("-arch=sm_90a --options-file=x", "--options-file=x"),
        ("-arch=sm_90a --compile-as-tools-patch", "--compile-as-tools-patch"),
    ],
)
def test_ptxas_likewise(words: str, unknown: str | None) -> None:
    with pytest.raises(NotModelled, match=f"^{unknown} is not modelled$") if unknown else nullcontext():
        expect_modelled_by("ptxas", words.split())
