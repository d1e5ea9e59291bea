"""Repeats a step and names the operator that made its first NaN or infinity."""
