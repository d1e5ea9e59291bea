"""Segments: the databases of a store, written row by row, checked where they are read."""
