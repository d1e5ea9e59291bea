"""Cases of the first held-out half: its outcomes have been seen."""
