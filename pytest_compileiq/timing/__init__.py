"""Clocks and the order of samples."""
