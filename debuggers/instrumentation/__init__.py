"""Attaches to a model and a loop, and leaves both as they were."""
