"""Histograms with fixed bins: made, merged, in columns."""
