"""Cases of the twenty-fourth held-out set, of its second writer: their outcomes have been seen."""
