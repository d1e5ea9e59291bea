"""Runs whose folder is an object store or a network file system: the live part stays local, sealed files are copied."""
