"""NVIDIA's compilers, and launching the kernels that they build."""
