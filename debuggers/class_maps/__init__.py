"""The common parts of class activation maps."""
