"""Cases of the sixteenth held-out set, of its first writer: their outcomes have been seen."""
