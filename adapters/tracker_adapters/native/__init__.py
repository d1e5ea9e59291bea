"""Compiled code, in C: measuring memory, merging and packing histograms. ``extension`` loads it."""
