"""Which options of NVIDIA's compilers the build cache models: those that let ptxas and cicc read no other file.

What the host's preprocessor does with an option shows in what it makes, so those that it alone reads may be any.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable

from pytest_compileiq.toolchains.nvidia.nvcc_flags import in_one_word
from pytest_compileiq.toolchains.nvidia.options import NVCC, PTXAS

# Besides those that a controls file may hold.
_OF_PTXAS = re.compile(
    r"-arch=\w+|-v|--verbose|-w|--disable-warnings|-lineinfo|--generate-line-info|-g|--device-debug"
    r"|-(?:O|-opt-level=)[0-4]|-(?:dlcm|dscm|flcm|fscm)=\w\w|-?-(?:maxrregcount|minnctapersm)=\d+"
    r"|-?-fmad=(?:true|false)|-?-warn-(?:on-)?[a-z-]+|-?-suppress-[a-z-]+"
)
_OF_THE_PREPROCESSOR = re.compile(
    r"-[IDU][^\0]+|-(?:isystem|include|Xcompiler|-compiler-options)=[^\0]+|-x=cu", re.DOTALL
)
_OF_NVCC = re.compile(
    r"-gencode=arch=compute_\w+,code=sm_\w+|-(?:O|-optimize=|O=)[0-3]|-?-std=c\+\+\d\d|-frandom-seed=\w+"
    r"|-lineinfo|--generate-line-info|-[gG]|--debug|--device-debug"
    r"|-?-expt-(?:relaxed-constexpr|extended-lambda)|-?-extended-lambda|-?-use_fast_math|-?-restrict"
    r"|-?-(?:ftz|prec-div|prec-sqrt|fmad)=(?:true|false)|-?-maxrregcount=\d+|-?-extra-device-vectorization"
    r"|-w|--disable-warnings|-?-diag-(?:suppress|warn|error)=[\d,]+|-Wno-[a-z-]+|(?:-t|--threads)=\d+"
)


def why_nvcc_is_not_modelled(words: Iterable[str]) -> str | None:
    """What ``words`` of nvcc's command may let a build depend on, that no key holds; None if there is nothing."""
    return _why_not(in_one_word(words), _is_of_nvcc)


def why_ptxas_is_not_modelled(words: Iterable[str]) -> str | None:
    """As ``why_nvcc_is_not_modelled``, of ptxas's command."""
    return _why_not(words, _is_of_ptxas)


def _why_not(words: Iterable[str], is_modelled: Callable[[str], bool]) -> str | None:
    unknown = next((word for word in words if not is_modelled(word)), None)
    return None if unknown is None else f"{unknown[:100]} is not modelled"


def _is_of_nvcc(word: str) -> bool:
    if handed_on := re.fullmatch(r"(?:-Xptxas|--ptxas-options)=(.*)", word):
        return all(map(_is_of_ptxas, handed_on[1].split(",")))
    return any(each.fullmatch(word) for each in (_OF_NVCC, _OF_THE_PREPROCESSOR)) or NVCC.may_hold(word)


def _is_of_ptxas(word: str) -> bool:
    return _OF_PTXAS.fullmatch(word) is not None or PTXAS.may_hold(word)
