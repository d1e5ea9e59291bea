"""Attaches to a model and a training loop, and leaves both unchanged."""
