"""Formats of files that more than one room writes or reads."""
