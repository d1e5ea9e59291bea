"""Carries typed artifacts of a training run into trackers, without ever importing torch."""
