"""Reading what a run has stored of its diagnosis, and diagnosing it, without torch."""
