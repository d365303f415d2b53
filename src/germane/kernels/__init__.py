"""Numba functions of arrays: compiled once, cached on disk, no classes, no Python objects."""
