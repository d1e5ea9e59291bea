"""Gradients, weights and updates over the steps, and findings about them."""
