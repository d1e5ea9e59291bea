"""What is raised where a script uses a call that is not here."""

from collections.abc import Iterable

from tracker_adapters.errors import StepscopeError


class UnsupportedCallError(StepscopeError, AttributeError, NotImplementedError):
    """A script uses a call, or an argument, that stepscope does not have; the message names it and what there is."""


def missing(place: str, name: str, there: Iterable[str], instead: str = "") -> UnsupportedCallError:
    """Returns the error about a name that is not there.

    Args:
        place: What was asked, such as ``stepscope.compat.wandb``.
        name: What it was asked for.
        there: What it has; names that begin with an underscore are left out.
        instead: What to use, as a clause.
    """
    known = ", ".join(sorted(one for one in there if not one.startswith("_")))
    hint = f"{instead}; " if instead else ""
    return UnsupportedCallError(f"{place} has no {name}: {hint}there are {known}")


def refuse(call: str, given: dict[str, object], instead: str) -> None:
    """Raises UnsupportedCallError for the first argument that is given and neither None nor false."""
    for name, value in given.items():
        if value is not None and value is not False:
            raise UnsupportedCallError(f"{call} does not take {name}={value!r:.60}: {instead}")
