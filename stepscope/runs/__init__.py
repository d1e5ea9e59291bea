"""Runs: opened, found, recorded into, closed."""
