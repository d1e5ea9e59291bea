"""Cases of the twelfth held-out set, of its second writer: their outcomes have been seen."""
