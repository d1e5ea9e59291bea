"""A session's stability manager: it decides and clips on the measurement that the session makes anyway."""

from __future__ import annotations

from typing import TYPE_CHECKING

from debuggers.summary_table import SummaryTable
from debuggers.torch_import import torch
from stepscope.errors import SessionError

if TYPE_CHECKING:
    from stability import NumericalStabilityManager
    from stability.results import StabilityResult


class SessionStability:
    """The manager with what it works on; without a manager it does nothing. What it costs is no overhead."""

    def __init__(
        self,
        manager: NumericalStabilityManager | None,
        model: torch.nn.Module | None,
        optimizer: torch.optim.Optimizer | None,
    ) -> None:
        self._manager, self._model, self._optimizer = manager, model, optimizer

    def check_loss(self, loss: torch.Tensor | float | None) -> None:
        """Checks that a manager gets a loss.

        Raises:
            SessionError: When there is a manager and no loss.
        """
        if self._manager is not None and loss is None:
            raise SessionError("the session has a stability manager and got no loss; expected session.step(loss)")

    def unscale(self) -> None:
        """Unscales the gradients before they are measured; the manager would do the same a moment later."""
        if self._manager is not None and self._optimizer is not None:
            self._manager.unscale(self._optimizer)

    def decide(
        self, number: int, loss: torch.Tensor | float | None, summaries: SummaryTable | None
    ) -> StabilityResult | None:
        """Lets the manager look and clip, and returns its result."""
        if self._manager is None or self._model is None or self._optimizer is None or loss is None:
            return None
        return self._manager.step(self._model, loss, self._optimizer, step=number, summaries=summaries)
