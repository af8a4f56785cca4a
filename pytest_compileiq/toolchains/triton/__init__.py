"""Triton, ahead of time."""
