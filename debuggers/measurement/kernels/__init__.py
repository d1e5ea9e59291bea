"""Calls of the compiled measuring code, in torch's threads."""
