"""Values and pictures of a layer's output, as all built-in debuggers need them."""
