"""Remedies after faults, tried one at a time."""
