"""Debuggers that run other debuggers."""
