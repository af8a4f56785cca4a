"""What Triton's launch options and a kernel's own parameters may change.

They come from the test's own space, so there is nothing to draw here.
"""

from __future__ import annotations

from pytest_compileiq.model import ControlClass
from pytest_compileiq.toolchains.options import Unlisted

_CONFIG = "Triton documentation, triton.Config"
_COMPILER = "Triton, third_party/nvidia/backend/compiler.py, CUDAOptions"
_GUIDE = "CUDA Programming Guide"
LAUNCH_OPTIONS = (
    Unlisted("num_warps|num_stages|num_ctas", "order", f"{_CONFIG}: how the work of a block is divided"),
    Unlisted("warp_size|clc", "order", f"{_COMPILER}: which threads and blocks do the work"),
    Unlisted("maxnreg", "value-safe", f"{_CONFIG}: maxnreg"),
    Unlisted("launch_cooperative_grid|debug|sanitize_overflow|ptx_version|min_shared_mem", "value-safe", _COMPILER),
    Unlisted("enable_fp_fusion", "contraction", f"{_COMPILER}: enable_fp_fusion becomes ptxas's --fmad"),
    Unlisted("enable_reflect_ftz", "relaxed-maths", f"{_COMPILER}: denormals are zero in libdevice"),
    Unlisted("fpsan_homomorphic_casts", "relaxed-maths", f"{_COMPILER}: stand-ins of values under the sanitizer"),
    Unlisted(
        "default_dot_input_precision|allowed_dot_input_precisions|max_num_imprecise_acc_default|supported_fp8_dtypes"
        "|deprecated_fp8_dot_operand_dtypes",
        "relaxed-maths",
        "Triton documentation, triton.language.dot: input_precision, max_num_imprecise_acc",
    ),
    Unlisted(
        "launch_pdl",
        "relaxed-semantics",
        f"{_GUIDE}, Programmatic Dependent Launch (Triton's launch_pdl): it begins before earlier writes can be seen",
    ),
    Unlisted("sched4reg", "opaque", f"{_COMPILER}: undocumented by Triton"),
)
# What a kernel makes of its constexprs is its own affair: most are sizes of tiles, and so of what is summed first.
CONSTEXPRS: ControlClass = "order"
CONSTEXPRS_SOURCE = "Triton documentation, triton.language.constexpr"
