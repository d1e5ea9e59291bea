"""What each rank of a training on several records of itself, so that readers of all stores can compare them."""
