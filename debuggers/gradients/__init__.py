"""Gradients, weights and updates over the steps, and what is wrong with them."""
