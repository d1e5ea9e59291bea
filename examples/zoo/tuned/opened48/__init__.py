"""Cases of the twenty-ninth held-out set, of its second writer: their outcomes have been seen."""
