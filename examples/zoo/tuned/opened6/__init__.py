"""Cases of the sixth held-out half: its outcomes have been seen."""
