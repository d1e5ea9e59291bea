"""NaN handling as the manager sees it: what is not finite, what the ranks agree on, and what is done about it."""

import math
from collections.abc import Callable, Mapping
from typing import Any

from debuggers.first_nan.finder import FirstNaNFinder
from debuggers.first_nan.origin import NonFiniteOrigin
from debuggers.gradients.loss_scale import overflow_is_due_to_scale
from debuggers.torch_import import torch
from stability.config_checks import check_config
from stability.gradients.measure import Gradients, Norms
from stability.handling.actions import FaultyStep, Handlers
from stability.handling.buffers import BufferKeeper
from stability.handling.config import NaNHandlingConfig
from stability.handling.non_finite import find_faults
from stability.handling.rank_agreement import Verdict, gather_verdicts, is_at_fault, ranks_at_fault
from stability.results.step import NaNStats


class FaultHandling:
    """Examines each step, and handles those whose loss or gradients are not finite, on this rank or another one."""

    def __init__(self, config: NaNHandlingConfig, scaler: torch.amp.GradScaler | None) -> None:
        check_config("nan_config", config, NaNHandlingConfig)
        self._config, self._scaler = config, scaler
        self._handlers = Handlers(config, scaler)
        self._agrees = config.agree_between_ranks and config.handling_type != "detect"
        self._buffers = None if config.handling_type == "detect" else BufferKeeper()
        self._verdicts: list[Verdict] = []
        self._row = 0

    def begin(self, optimizer: torch.optim.Optimizer) -> None:
        """Begins a step: the optimizer may step again."""
        self._handlers.skipper.release(optimizer)

    def check(self, optimizer: torch.optim.Optimizer) -> None:
        """Raises StabilityError inside a closure where the step could not be skipped."""
        self._handlers.check(optimizer)

    def examine(self, model: torch.nn.Module, gradients: Gradients, norms: Norms, *, scaling: bool) -> NaNStats:
        """Returns what is not finite here, and on which ranks something is not.

        Args:
            model: The model.
            gradients: Its gradients, unscaled.
            norms: Their norms.
            scaling: Whether a GradScaler is at work.
        """
        faults = find_faults(model, gradients, norms)
        blamed = scaling and bool(faults) and math.isfinite(norms.loss)
        stats = NaNStats(
            handling_type=self._config.handling_type,
            loss_finite=math.isfinite(norms.loss),
            gradients_finite=not faults,
            nan_count=sum(fault["nan"] for fault in faults),
            inf_count=sum(fault["inf"] for fault in faults),
            parameters=faults,
            scaler_step=blamed and overflow_is_due_to_scale(self._scaler),
            norm_overflow=False,
            action="none",
            ranks=[],
            restored_step=None,
            exhausted=False,
        )
        own = Verdict(
            stats["loss_finite"],
            stats["nan_count"] + stats["inf_count"],
            sum(parameter.numel() for parameter in gradients.parameters) if faults else 1,
            stats["scaler_step"],
        )
        self._verdicts = gather_verdicts(own, gradients.tensors[0].device) if self._agrees else [own]
        if len(self._verdicts) > 1:
            stats["ranks"] = ranks_at_fault(self._verdicts)
        stats["norm_overflow"] = not self._has_faulty_gradients() and not math.isfinite(norms.total)
        return stats

    def handle(
        self,
        model: torch.nn.Module,
        optimizer: torch.optim.Optimizer,
        gradients: Gradients,
        stats: NaNStats,
        *,
        number: int,
        scaling: bool,
    ) -> bool:
        """Does what the handling type wants about the step that was examined, and notes it in ``stats``.

        A step that a GradScaler skips by itself is not handled; when it does so on some of the ranks, all skip.

        Returns:
            Whether there are gradients and they are finite now, on all ranks.
        """
        bad = [verdict for verdict in self._verdicts if not verdict.good]
        restore = self._handlers.restore
        if not bad:
            self._row = 0
            self.keep_buffers(model)
            if restore is not None:
                restore.note_good_step(model, optimizer, number)
            return True
        if all(verdict.scaler_step for verdict in bad):
            stats["scaler_step"] = True
            if len(bad) < len(self._verdicts):
                self._handlers.skipper.skip(model, optimizer)
                stats["action"] = "skipped"
            return False
        self._row += 1
        handled = self._handlers.chosen.handle(
            FaultyStep(
                model=model,
                optimizer=optimizer,
                gradients=gradients,
                faulty=[fault["name"] for fault in stats["parameters"]],
                loss_finite=all(verdict.loss_finite for verdict in bad),
                share=max(verdict.faulty / verdict.elements for verdict in bad),
                row=self._row,
                scaler_skips=scaling and any(verdict.faulty for verdict in bad),
            )
        )
        stats["action"], stats["restored_step"], stats["exhausted"] = handled
        if handled.action == "restored":
            self.keep_buffers(model)
        elif self._buffers is not None:
            stats["buffers_reset"], stats["buffers_left"] = self._buffers.put_back(model)
        if handled.action == "none":
            return not self._has_faulty_gradients()
        return handled.action not in ("skipped", "restored")

    def keep_buffers(self, model: torch.nn.Module) -> None:
        """Keeps the buffers as they are, for a fault in the step to come; with ``detect`` it does nothing."""
        if self._buffers is not None:
            self._buffers.keep(model)

    def snapshot_mb(self) -> float | None:
        """Returns what the snapshots take, in MB of 2**20 bytes; None where none are kept."""
        restore = self._handlers.restore
        return None if restore is None else restore.memory_mb()

    def state_dict(self) -> dict[str, Any]:
        """Returns what a checkpoint needs: the faulty steps in a row, and buffers. Snapshots stay with the process."""
        buffers = [] if self._buffers is None else self._buffers.save()
        return {"faulty_steps_in_a_row": self._row, "buffers": buffers}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Takes what ``state_dict`` gave; the snapshots so far are of another training and are forgotten."""
        self._row = int(state["faulty_steps_in_a_row"])
        if self._buffers is not None:
            self._buffers.load(state.get("buffers", []))
        self._handlers = Handlers(self._config, self._scaler)

    def _has_faulty_gradients(self) -> bool:
        return any(verdict.faulty for verdict in self._verdicts)


def find_origin(
    finder: FirstNaNFinder,
    number: int,
    loss: torch.Tensor | float,
    stats: NaNStats,
    replay: Callable[[], Any] | None,
) -> NonFiniteOrigin | None:
    """Asks where the NaN of a step come from; the answer is put into ``stats`` as ``first_nan``."""
    answer = finder.look(
        number,
        loss,
        loss_is_finite=stats["loss_finite"],
        finite=stats["scaler_step"] or (stats["loss_finite"] and stats["gradients_finite"]),
        is_ours=is_at_fault(stats["ranks"]),
        replay=replay,
    )
    if answer is None:
        return None
    stats["first_nan"] = answer.as_dict()
    return answer.origin
