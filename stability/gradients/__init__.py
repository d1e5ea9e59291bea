"""Measures gradients as a whole and by parameter, sharded ones too."""
