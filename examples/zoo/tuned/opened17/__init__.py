"""Cases of the fourteenth held-out set, of its first writer: their outcomes have been seen."""
