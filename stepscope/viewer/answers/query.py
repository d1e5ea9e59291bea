"""The parameters of an address, checked."""

from __future__ import annotations

from collections.abc import Mapping
from math import inf, isnan
from typing import TYPE_CHECKING
from urllib.parse import parse_qsl

from stepscope.viewer.answers.answer import BadRequest, NotFound

if TYPE_CHECKING:
    from stepscope.viewer.watched_runs import RunList

MAX_ADDRESS = 64 * 1024
_MOST_PARAMETERS = 32
_MOST_TOLD = 16


class Query:
    """The parameters of an address, such as ``series?run=3f2a&name=loss``."""

    def __init__(self, parameters: Mapping[str, str]) -> None:
        self.parameters = dict(parameters)

    @classmethod
    def of(cls, address: str) -> tuple[str, Query]:
        """Returns the path of an address and its parameters; raises BadRequest for what is none."""
        if len(address) > MAX_ADDRESS:
            raise BadRequest(f"an address has {len(address)} characters; expected at most {MAX_ADDRESS}")
        path, _, parameters = address.partition("?")  # no URL: what follows two slashes is no host
        try:
            pairs = parse_qsl(parameters, keep_blank_values=True, max_num_fields=_MOST_PARAMETERS, errors="strict")
        except ValueError as error:
            raise BadRequest(f"the parameters are {parameters[:100]!r}: {error}") from error
        return path.strip("/"), cls(dict(pairs))

    def text(self, name: str, default: str | None = None) -> str:
        """Returns a parameter; raises BadRequest when it is missing and has no default."""
        found = self.parameters.get(name, default)
        if found is None:
            raise BadRequest(f"the parameter {name} is missing")
        return found

    def number(self, name: str, default: float | None = None, low: float = -inf, high: float = inf) -> float:
        """Returns a parameter as a number from ``low`` to ``high``; empty is the default."""
        text = self.parameters.get(name, "")
        if not text and default is not None:
            return default
        try:
            found = float(text)
        except ValueError:
            found = float("nan")
        if isnan(found) or not low <= found <= high:
            raise BadRequest(f"{name} is {text[:100]!r}; expected a number from {low:g} to {high:g}")
        return found

    def whole(self, name: str, default: int | None = None, low: int = 0, high: int = 2**53) -> int:
        """Returns a parameter as an integer from ``low`` to ``high``; empty is the default."""
        found = self.number(name, default, low, high)
        if found != int(found):
            raise BadRequest(f"{name} is {found:g}; expected an integer")
        return int(found)

    def rank(self, runs: RunList, key: str = "") -> int:
        """Returns the rank of the run that is asked about, by default its lowest; raises NotFound for one it lacks."""
        run = runs.run(key or self.run())
        ranks = run.ranks()
        lowest = min(ranks, default=0)
        found = self.whole("rank", lowest)
        if found != lowest and found not in ranks:
            run.head()  # raises where the run cannot be read
            known = ", ".join(map(str, ranks[:_MOST_TOLD])) + (", …" if len(ranks) > _MOST_TOLD else "")
            raise NotFound(f"rank is {found}; expected one that the run has: {known or lowest}")
        return found

    def run(self, name: str = "run") -> str:
        """Returns the key of the run that is asked about."""
        return self.text(name)

    def runs(self) -> list[str]:
        """Returns the keys in ``runs``, or the one in ``run``, each once."""
        keys = self.text("runs", self.text("run", "")).split(",")
        found = list(dict.fromkeys(filter(None, keys)))
        if not found:
            raise BadRequest("the parameter runs is empty; expected keys of runs, separated by commas")
        return found
