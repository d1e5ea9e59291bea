"""Integrations of training frameworks, one file each; a framework is imported in its file alone."""
