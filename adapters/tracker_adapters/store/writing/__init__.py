"""The live store of a process: takes artifacts from a queue and commits them."""
