"""Runs an unchanged script, and watches the trainings in it."""
