"""Cases of the twelfth held-out set, of its first writer: their outcomes have been seen."""
