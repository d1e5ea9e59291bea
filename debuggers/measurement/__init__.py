"""Measures many tensors at once: statistics and mergeable histograms."""
