"""Cases of the twenty-sixth held-out set, of its second writer: their outcomes have been seen."""
