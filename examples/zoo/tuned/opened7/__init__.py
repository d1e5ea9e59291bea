"""Cases of the seventh held-out half: its outcomes have been seen."""
