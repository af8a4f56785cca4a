"""A matrix product in Triton."""

import triton
import triton.language as tl


@triton.jit
def matmul(c, a, b, M, N, K, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr):
    """C = A B for row-major half floats, sizes being multiples of the blocks."""
    rows = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)
    columns = tl.program_id(1) * BLOCK_N + tl.arange(0, BLOCK_N)
    inner = tl.arange(0, BLOCK_K)
    at_a = a + rows[:, None] * K + inner[None, :]
    at_b = b + inner[:, None] * N + columns[None, :]
    total = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    for _ in range(0, K, BLOCK_K):
        total += tl.dot(tl.load(at_a), tl.load(at_b))
        at_a += BLOCK_K
        at_b += BLOCK_K * N
    tl.store(c + rows[:, None] * N + columns[None, :], total.to(tl.float16))
