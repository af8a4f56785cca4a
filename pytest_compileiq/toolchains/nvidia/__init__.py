"""NVIDIA's compilers, and launching what they make."""
