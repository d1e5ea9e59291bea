"""Cases of the fourth held-out half: its outcomes have been seen."""
