"""Cases of the twenty-eighth held-out set, of its second writer: their outcomes have been seen."""
