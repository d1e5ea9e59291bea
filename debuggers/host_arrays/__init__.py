"""Tensors as arrays on the host: copied, held in blocks, compared."""
