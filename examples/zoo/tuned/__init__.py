"""The cases on which the rules of the diagnosis are tuned."""
