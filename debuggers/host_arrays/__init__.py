"""Tensors as arrays on the host: copies, block memory, comparison."""
