"""From symptoms to causes: what is wrong with a training, since when, why, and what to try."""
