"""Outlines of symbols, by GNU's demangler where it takes them: a kernel of CUTLASS has more than the 1024 characters."""

import shutil
import subprocess
from pathlib import Path

import cxxfilt
import pytest

from pytest_compileiq.machine_code.names import declaration, matching, outline, readable, without_parameters

# CUTLASS 4.2, examples/12_gemm_bias_relu, as nvcc 13.3 names its kernel
GEMM = (
    "_ZN7cutlass6KernelINS_4gemm6kernel4GemmINS1_11threadblock12MmaPipelinedINS1_9GemmShapeILi128ELi128EL"
    "i32EEENS_9transform11threadblock22PredicatedTileIteratorINS_11MatrixShapeILi128ELi32EEENS_6half_tENS"
    "_6layout8RowMajorELi1ENS8_29PitchLinearWarpRakedThreadMapINS_16PitchLinearShapeILi32ELi128EEELi128EN"
    "SH_ILi4ELi8EEELi8EEELi8ELb0ENSE_9NoPermuteEEENS9_19RegularTileIteratorISC_SD_NSE_37RowMajorTensorOpM"
    "ultiplicandCrosswiseILi16ELi32EEELi0ESK_Li16EEENSA_INSB_ILi32ELi128EEESD_SF_Li0ENSG_INSH_ILi128ELi32"
    "EEELi128ENSH_ILi8ELi4EEELi8EEELi8ELb0ESL_EENSN_ISR_SD_NSE_37RowMajorTensorOpMultiplicandCongruousILi"
    "16ELi64EEELi0ESU_Li16EEEfSF_NS4_9MmaPolicyINS1_4warp11MmaTensorOpINS6_ILi64ELi64ELi32EEESD_SP_SD_SX_"
    "fSF_NS10_17MmaTensorOpPolicyINS_4arch3MmaINS6_ILi16ELi8ELi8EEELi32ESD_SF_SD_NSE_11ColumnMajorEfSF_NS"
    "14_13OpMultiplyAddEEENSB_ILi1ELi1EEEEELi1ELb0EbEENSB_ILi0ELi0EEES1D_Li1EEENS_21NumericArrayConverter"
    "ISD_SD_Li32ELNS_15FloatRoundStyleE2ENS8_6thread14UnaryTransform8IdentityEEES1K_bEENS_8epilogue11thre"
    "adblock8EpilogueIS7_S1C_Li1ENS1N_22PredicatedTileIteratorINS1N_26OutputTileOptimalThreadMapINS1N_15O"
    "utputTileShapeILi128ELi8ELi2ELi1ELi1EEENS1R_ILi1ELi8ELi1ELi1ELi8EEELi128ELi4ELi32EEEfLb0ESL_Lb0EEENS"
    "1M_4warp24FragmentIteratorTensorOpIS12_S16_fNS_5ArrayIfLi4ELb1EEESF_EENS1W_20TileIteratorTensorOpIS1"
    "2_S16_fSF_EENS1N_18SharedLoadIteratorINS1U_18CompactedThreadMapEfLi16EEENS1M_6thread21LinearCombinat"
    "ionReluIfLi4EffLNS26_9ScaleType4KindE1ELS1G_2EEENSB_ILi0ELi8EEELi2ELi1EEENS4_30GemmIdentityThreadblo"
    "ckSwizzleILi1EEELb0EEEEEvNT_6ParamsE"
)


def test_a_kernel_of_cutlass_goes_by_its_qualified_name():
    with pytest.raises(cxxfilt.InvalidName):
        cxxfilt.demangle(GEMM)
    assert readable(GEMM).startswith("cutlass::Kernel<…>#")
    assert matching("cutlass::Kernel*", [GEMM, "main"]) == [GEMM] == matching(readable(GEMM), [GEMM, "main"])
    other = GEMM.replace("Li128ELi128ELi32E", "Li128ELi256ELi32E")
    assert readable(other) != readable(GEMM)


@pytest.mark.skipif(shutil.which("c++filt") is None, reason="no c++filt: it comes with gcc's binutils")
def test_a_compiler_s_own_symbol_is_declared_whole_by_binutils_and_else_told_in_outline(monkeypatch):
    declaration.cache_clear()
    assert declaration(GEMM).startswith("void cutlass::Kernel<cutlass::gemm::kernel::Gemm<cutlass::gemm::threadblock::")
    declaration.cache_clear()
    monkeypatch.setenv("PATH", "")
    assert declaration(GEMM) == outline(GEMM)
    declaration.cache_clear()


@pytest.mark.parametrize(
    ("symbol", "name"),
    [
        ("_Z1fv", "f"),
        ("_ZL6helperILb0EEvv", "helper<…>"),
        ("_ZSt4moveIRiEvOT_", "std::move<…>"),
        ("_ZN12_GLOBAL__N_15scaleIfEEvPT_", "(anonymous namespace)::scale<…>"),
        ("_ZN2ns3FooC1Ei", "ns::Foo::Foo"),
        ("_ZN2ns3FooIiED2Ev", "ns::Foo<…>::~Foo"),
        ("_ZN2ns4openB5cxx11IfEEvv", "ns::open<…>"),
        ("_Z1gIXadL_Z1fvEEEvv", "g<…>"),
        ("_Z1gILN2ns5styleE2ELin5ELPv0EEvv", "g<…>"),
        ("_Z1hIFvA4_iEDpT_fEvv", "h<…>"),
    ],
)
def test_an_outline_has_no_arguments(symbol, name):
    assert (outline(symbol) or "").rpartition("#")[0] == name


@pytest.mark.parametrize(
    "symbol",
    [
        "",
        "main",
        "_Z",
        "_Znonsense",
        "_ZN2ns",
        "_Z9short",
        "_Z1fI",
        "_Z1fIiv",
        "_Z1fI9xE",
        "_ZplRK1AS1_",
        "_ZZ1fvENKUlvE_clEv",
    ],
)
def test_what_has_no_name_of_its_own_has_no_outline(symbol):
    assert outline(symbol) is None


def test_outlines_agree_with_the_demangler_on_a_library_that_nobody_here_wrote():
    runtime = Path(subprocess.run(
        ["gcc", "-print-file-name=libstdc++.so.6"], capture_output=True, text=True, check=True
    ).stdout.strip())  # fmt: skip
    if not runtime.is_absolute():
        pytest.skip("no libstdc++.so.6 beside gcc")
    listed = subprocess.run(["nm", "-D", runtime], capture_output=True, text=True, check=True).stdout
    symbols = {line.split()[-1].partition("@")[0] for line in listed.splitlines() if " _ZN" in line}
    outlined = {symbol: told for symbol in symbols if (told := outline(symbol))}
    assert len(outlined) > 1000
    for symbol, told in outlined.items():
        assert told.rpartition("#")[0] == _without_arguments(without_parameters(cxxfilt.demangle(symbol))), symbol


def _without_arguments(name: str) -> str:
    kept, depth = "", 0
    for character in name.replace("[abi:cxx11]", ""):
        depth -= character == ">"
        kept += character if depth == 0 else "…" if depth == 1 and kept.endswith("<") else ""
        depth += character == "<"
    return kept
