"""What delivery costs and how fast it is, beside the trackers' own clients."""
