"""Cases of the eleventh held-out set: their outcomes have been seen."""
