"""Cases of the second held-out half: its outcomes have been seen."""
