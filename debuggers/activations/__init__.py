"""Measurements of layers' outputs over the steps, and detection of dead units."""
