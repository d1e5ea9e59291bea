"""Cases of the other half of the eighth held-out set, by another writer: their outcomes have been seen."""
