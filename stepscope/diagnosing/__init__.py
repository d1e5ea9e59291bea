"""Diagnosing a run from what it has stored, without torch."""
