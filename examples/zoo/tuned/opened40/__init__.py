"""Cases of the twenty-fifth held-out set, of its second writer: their outcomes have been seen."""
