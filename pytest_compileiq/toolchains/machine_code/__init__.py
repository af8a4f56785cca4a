"""Machine code out of what compilers write: digests and exact metrics."""
