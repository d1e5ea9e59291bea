"""One-off probes of a training on a batch: they cost steps, and run on copies of model and optimizer."""
