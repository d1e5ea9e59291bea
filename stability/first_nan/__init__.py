"""Finds the operator that made the first NaN of a step, and tells."""
