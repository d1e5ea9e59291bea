"""Cases of the twenty-third held-out set, of its second writer: their outcomes have been seen."""
