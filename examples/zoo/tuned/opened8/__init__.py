"""Cases of one half of the eighth held-out set: its outcomes have been seen."""
