"""Compiling with numba, and keeping the machine code."""
