"""Cases of the thirtieth held-out set, of its second writer: their outcomes have been seen."""
