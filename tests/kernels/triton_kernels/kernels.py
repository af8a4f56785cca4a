"""Triton kernels of this project: softmax, matmul and the forward pass of flash attention."""

import triton
import triton.language as tl


@triton.jit
def softmax(out, x, row_stride, columns, BLOCK: tl.constexpr):
    """Softmax of one row a program; a row fits in BLOCK."""
    start = tl.program_id(0) * row_stride
    at = tl.arange(0, BLOCK)
    values = tl.load(x + start + at, mask=at < columns, other=-float("inf"))
    weights = tl.exp(values - tl.max(values, axis=0))
    tl.store(out + start + at, weights / tl.sum(weights, axis=0), mask=at < columns)


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


@triton.jit
def flash_attention(out, q, k, v, keys, scale, HEAD: tl.constexpr, BLOCK_Q: tl.constexpr, BLOCK_K: tl.constexpr):
    """Softmax(Q Kᵀ scale) V of one head, BLOCK_Q queries a program, the softmax carried along (Dao et al. 2022)."""
    rows = tl.program_id(0) * BLOCK_Q + tl.arange(0, BLOCK_Q)
    head = tl.arange(0, HEAD)
    queries = tl.load(q + rows[:, None] * HEAD + head[None, :])
    most = tl.full((BLOCK_Q,), -float("inf"), dtype=tl.float32)
    total = tl.zeros((BLOCK_Q,), dtype=tl.float32)
    weighted = tl.zeros((BLOCK_Q, HEAD), dtype=tl.float32)
    for start in range(0, keys, BLOCK_K):
        at = start + tl.arange(0, BLOCK_K)
        scores = tl.dot(queries, tl.load(k + at[None, :] * HEAD + head[:, None])) * scale
        now = tl.maximum(most, tl.max(scores, axis=1))
        weights = tl.exp(scores - now[:, None])
        keep = tl.exp(most - now)
        total = total * keep + tl.sum(weights, axis=1)
        values = tl.load(v + at[:, None] * HEAD + head[None, :])
        weighted = weighted * keep[:, None] + tl.dot(weights.to(tl.float16), values)
        most = now
    tl.store(out + rows[:, None] * HEAD + head[None, :], (weighted / total[:, None]).to(tl.float16))
