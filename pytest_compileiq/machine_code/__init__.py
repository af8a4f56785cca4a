"""Reads machine code from compilers' output: digests and exact metrics."""
