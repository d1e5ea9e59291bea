"""What keeps a store small: compaction, limits of retention, the removal of blobs that nothing names."""
