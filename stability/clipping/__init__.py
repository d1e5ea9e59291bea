"""The ways of clipping gradients, one object for each."""
