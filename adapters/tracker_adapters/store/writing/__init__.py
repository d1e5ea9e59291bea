"""The writer of a live store: takes artifacts from a queue and commits them."""
