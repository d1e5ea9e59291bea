"""Cases of the twenty-seventh held-out set, of its second writer: their outcomes have been seen."""
