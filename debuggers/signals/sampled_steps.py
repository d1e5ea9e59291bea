"""Which steps are looked at closely."""


def is_sampled(count: int) -> bool:
    """Whether a step is sampled, by how many came before it in the session: the first ten, every tenth, fiftieth."""
    return count < 10 or (count < 100 and count % 10 == 0) or count % 50 == 0
