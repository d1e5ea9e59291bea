"""Cases of the fifth held-out half: its outcomes have been seen."""
