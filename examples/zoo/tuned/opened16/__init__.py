"""Cases of the thirteenth held-out set, of its second writer: their outcomes have been seen."""
