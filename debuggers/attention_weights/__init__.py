"""Finds, computes and measures attention weights."""
