"""Cases of the thirteenth held-out set, of its first writer: their outcomes have been seen."""
