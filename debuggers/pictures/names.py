"""Long names in little room."""


def shortened(name: str, most: int, mark: str = "…") -> str:
    """Returns a name in at most ``most`` characters: both ends stay, since what tells names apart may be in either."""
    if len(name) <= most:
        return name
    end = (most - len(mark)) // 2
    return name[: most - len(mark) - end] + mark + (name[-end:] if end else "")
