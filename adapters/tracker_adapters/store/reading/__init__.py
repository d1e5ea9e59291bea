"""Reads a run, live or ended, of all its attempts."""
