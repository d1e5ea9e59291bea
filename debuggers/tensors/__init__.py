"""Inspection of single tensors that a training loop passes in."""
