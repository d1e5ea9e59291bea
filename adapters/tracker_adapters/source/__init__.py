"""The packages and the Git state of a training."""
