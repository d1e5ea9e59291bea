"""Maintenance of a store: compaction, retention limits, and the removal of blobs without references."""
