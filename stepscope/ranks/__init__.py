"""The stores of all ranks of a run together: merged statistics, and what tells one rank from the others."""
