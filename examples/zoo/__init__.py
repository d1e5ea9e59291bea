"""Sick trainings, each with its repaired twin, and healthy ones that look sick: what the diagnosis is measured on."""
