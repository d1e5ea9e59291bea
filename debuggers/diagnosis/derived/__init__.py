"""What several rules derive from evidence: how far weights go, how often rows come, what chance does."""
