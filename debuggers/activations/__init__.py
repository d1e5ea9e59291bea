"""Layers' outputs over the steps, and dead units."""
