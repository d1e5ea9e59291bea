"""Cases of the tenth held-out set: their outcomes have been seen."""
