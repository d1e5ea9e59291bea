"""Cases of the third held-out half: its outcomes have been seen."""
