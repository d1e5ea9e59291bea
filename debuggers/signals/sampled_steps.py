"""Which steps are looked at closely."""


def is_sampled(count: int) -> bool:
    """Whether a step is sampled, by how many came before it in the session: the first ten, every 11th, every 53rd.

    Epochs often have 10, 20, 50 or 100 batches: multiples of these would be the same places of each epoch.
    """
    return count < 10 or count % (11 if count < 100 else 53) == 0
