"""Cases of the twenty-fifth held-out set, of its first writer: their outcomes have been seen."""
