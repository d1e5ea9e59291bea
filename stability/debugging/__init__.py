"""The tools of a debug session: PyTorch's own, with limits, and what they find as files and artifacts."""
