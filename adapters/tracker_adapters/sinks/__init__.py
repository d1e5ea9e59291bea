"""The sinks, one module or folder each; found by name through the registry."""
