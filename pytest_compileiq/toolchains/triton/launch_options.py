"""What Triton's launch options and a kernel's own parameters may change.

They come from the test's own space, so there is nothing to draw here.
"""

from __future__ import annotations

from pytest_compileiq.model import ControlClass
from pytest_compileiq.toolchains.option_list import Unlisted

_CONFIG = "Triton documentation, triton.Config"
_COMPILER = "Triton, third_party/nvidia/backend/compiler.py, CUDAOptions"
LAUNCH_OPTIONS = (
    Unlisted("num_warps|num_stages|num_ctas", "order", f"{_CONFIG}: how the work of a block is divided"),
    Unlisted("maxnreg", "value-safe", f"{_CONFIG}: maxnreg"),
    Unlisted("launch_pdl|launch_cooperative_grid|debug|sanitize_overflow", "value-safe", _COMPILER),
    Unlisted("enable_fp_fusion", "contraction", f"{_COMPILER}: enable_fp_fusion becomes ptxas's --fmad"),
    Unlisted(
        "default_dot_input_precision|allowed_dot_input_precisions|max_num_imprecise_acc_default|supported_fp8_dtypes",
        "relaxed-maths",
        "Triton documentation, triton.language.dot: input_precision, max_num_imprecise_acc",
    ),
)
# What a kernel makes of its constexprs is its own affair: most are sizes of tiles, and so of what is summed first.
CONSTEXPRS: ControlClass = "order"
CONSTEXPRS_SOURCE = "Triton documentation, triton.language.constexpr"
