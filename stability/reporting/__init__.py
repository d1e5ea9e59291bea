"""Files and figures of a debug session."""
