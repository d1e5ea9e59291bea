"""Gradients that shrink or grow from the last layer to the first."""

import math
from abc import abstractmethod
from collections.abc import Callable, Sequence

import numpy as np

from debuggers.detectors.call_order import places_in
from debuggers.detectors.detector import Detector
from debuggers.detectors.module_parts import ModuleParts
from debuggers.detectors.observation import Bools, Floats, Observation

LARGEST_RATIO = 70.0
SMALLEST_RATIO = 1e-3
SMALLEST_NORM = 1e-4
LASTING = 10


class Modules:
    """Which module each row belongs to, and which of them come first and last."""

    def __init__(self, order: Callable[[], Sequence[str]] = lambda: ()) -> None:
        """Takes what returns the modules in the order of their calls; while that is empty, rows stand in theirs."""
        self._order, self._known = order, (0, 0)
        self._places: Floats = np.empty(0)
        self._module_of: list[str] = []
        self._rows_of: dict[str, list[int]] = {}
        self._own: list[int] = []  # rows of the model itself, which stand first wherever it uses them
        self._parts = ModuleParts()
        self._seen: Observation | None = None
        self._ends: tuple[int, int] | None = None

    def first_and_last(self, observation: Observation) -> tuple[int, int] | None:
        """The row with the largest norm in the first, and in the last module; None with fewer than two modules."""
        if observation is not self._seen:
            self._seen, self._ends = observation, self._first_and_last(observation)
        return self._ends

    def _first_and_last(self, observation: Observation) -> tuple[int, int] | None:
        norms = observation.values["norm"]
        for row in range(len(self._module_of), len(norms)):
            name = observation.names[row]
            self._module_of.append(name.rpartition(".")[0] or name)
            self._rows_of.setdefault(self._module_of[row], []).append(row)
            if "." not in name:
                self._own.append(row)
        alive = (norms > 0) & (norms < np.inf) & ~self._parts.lone_biases(observation, len(norms))
        if len(self._own) < len(norms):
            alive[self._own] = False
        if not alive.any():
            return None
        places = self._placed()
        first = int(np.where(alive, places, np.inf).argmin())
        last = len(alive) - 1 - int(np.where(alive, places, -np.inf)[::-1].argmax())
        if self._module_of[first] == self._module_of[last]:
            return None
        return self._largest(norms, alive, first), self._largest(norms, alive, last)

    def _placed(self) -> Floats:
        """The place of each row's module in the order of calls; the row's own where that is not known."""
        order = self._order()
        if self._known != (len(order), len(self._module_of)):
            self._known = len(order), len(self._module_of)
            places = places_in(order, [name for name in self._module_of if name])
            known = places is not None and len(places) == len(self._module_of)
            self._places = np.array(places if known else range(len(self._module_of)), np.float64)
        return self._places

    def _largest(self, norms: Floats, alive: Bools, row: int) -> int:
        own = self._rows_of[self._module_of[row]]
        return max(own, key=lambda other: norms[other] if alive[other] else 0.0)


class _ByDepth(Detector):
    """A rule about the norm of the first module that has a gradient, against that of the last one."""

    statistics = frozenset({"norm"})
    judged = "norm"
    consecutive_steps = LASTING

    def __init__(self, modules: Modules | None = None) -> None:
        """Judges nothing yet; detectors that see the same observations may share ``modules``, which saves time."""
        super().__init__()
        self._modules = Modules() if modules is None else modules

    def check(self, observation: Observation) -> tuple[Bools, float]:
        """See the class."""
        norms = observation.values["norm"]
        broken = np.zeros(len(norms), np.bool_)
        ends = self._modules.first_and_last(observation)
        if ends is None:
            return broken, math.nan
        first, last = ends
        norm, limit = float(norms[first]), self._limit(float(norms[last]))
        broken[first] = norm != limit and self.worst(norm, limit) == norm
        return broken, limit

    @abstractmethod
    def _limit(self, last: float) -> float:
        """Returns what the first norm may just be, from the last one."""


class VanishingByDepth(_ByDepth):
    """The first layer's gradient norm is below 1e-4 and below a thousandth of the last layer's, 10 times in a row.

    First and last of the modules that have a gradient, in the order of their calls, or in the model's where that is
    not known; the norm of a module is that of the parameter with the largest one. A bias whose weight is frozen is
    left out: before a normalisation it has no gradient by construction. So are parameters of the model itself, such as
    a temperature, unless it has no others: they stand before all modules wherever they are used. Twelve sigmoid layers
    that have stopped learning still have a mean |g| of 1e-6: ``VanishingGradient``, whose limit is absolute, is silent
    there. Ten observed steps, because adapters and residual branches that begin at zero hold back the gradients of
    what is before them for some steps. A gradient that is zero everywhere, or not finite, is the business of other
    rules.
    """

    kind = "vanishing_by_depth"
    level = "warning"
    rule = "|g_first| / |g_last| < 1e-3 and |g_first| < 1e-4 (AutoTrainer), at 10 observed steps in a row"
    evidence = "norm {value:.2g} is below {threshold:.2g}: 1e-4, and a thousandth of the last layer's"
    worst = np.fmin

    def _limit(self, last: float) -> float:
        return min(SMALLEST_NORM, SMALLEST_RATIO * last)


class ExplodingByDepth(_ByDepth):
    """The first layer's gradient norm is above 70 times the last layer's, at 10 observed steps in a row.

    First and last as in ``VanishingByDepth``. Only told: near convergence the last layer of a sound model has the
    smallest gradient. From 1e4 times on, ``debuggers.gradients.growth`` reports it as ``exploding_gradient``.
    """

    kind = "exploding_by_depth"
    level = "info"
    rule = "|g_first| / |g_last| > 70 (AutoTrainer), at 10 observed steps in a row"
    evidence = "norm {value:.3g} is above {threshold:.3g}: 70 times the last layer's"
    worst = np.fmax

    def _limit(self, last: float) -> float:
        return LARGEST_RATIO * last
