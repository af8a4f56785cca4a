"""The kernels that a running program calls: which they are, and how much of its time they take."""
