"""Kernels of a program that ``acf capture`` recorded: built from source, and called as the program called them."""
