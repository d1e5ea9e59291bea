"""Pages on the disk: written, indexed, read, checked, compared."""
