"""Compiled code of the measurement; importing a module of it imports numba."""
