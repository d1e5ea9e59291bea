"""Records of a rank what readers compare with the others': placement, checksums, batches, and where its time goes."""

import time
from collections.abc import Sequence
from functools import partial

import numpy as np
from tracker_adapters.emitter import Emitter

from debuggers.diagnosis.rank_facts import RANK_NAME, RankFacts, encode_rank
from debuggers.diagnosis.signals import PREFIX
from debuggers.gradients.parameters import Parameters
from debuggers.host_arrays.graph_capture import is_capturing
from debuggers.measurement.arrival_queue import ArrivalQueue
from debuggers.ranks.checksums import Checksums, as_numbers, together
from debuggers.ranks.placement import ignored_by_ddp, rank_facts
from debuggers.ranks.step_phases import PHASES, StepPhases
from debuggers.torch_import import torch

EVERY = 10
"""The first ten steps are checked, and those that this divides: a resumed training checks again what it checked."""


class RankRecorder:
    """Records one rank of several; no collective, and nothing waits for a device or another rank."""

    def __init__(self, model: torch.nn.Module, emitter: Emitter) -> None:
        """Emits at once how the parameters lie here."""
        self._emitter = emitter
        self._arrivals = ArrivalQueue()
        self._parameters = Parameters(model)
        self.facts: RankFacts = rank_facts(model, self._parameters.names, self._parameters.tensors)
        self._left_out = ignored_by_ddp(model)
        self._groups: dict[tuple[str, ...], list[tuple[str, list[int]]]] = {}
        self._phases = StepPhases()
        self._count = 0
        self._first_step: int | None = None

    def step(self, step: int, batch: torch.Tensor | None, begun: Sequence[float | None]) -> None:
        """Takes a step, after its backward passes and before the optimizer changes the weights.

        Args:
            step: The training step.
            batch: The first tensor that the model was given in it.
            begun: When its first forward pass and its first backward pass began, and when the last one ended, by
                ``time.perf_counter``; None where that was not seen.
        """
        if self._first_step is None:
            self._first_step = step
            self._emitter.text(RANK_NAME, encode_rank(self.facts), step=step)
        count, self._count = self._count, self._count + 1
        is_tenth = (self._first_step + count) % EVERY == 0  # steps that a caller numbers otherwise cost no more
        self._phases.step(begun)
        if count >= EVERY and is_tenth and (found := self._phases.take()):
            self._emitter.scalars([f"{PREFIX}{name}" for name in PHASES], found, step=step)
        if (count < EVERY or is_tenth) and not is_capturing():
            self._check(step, batch)

    def after_step(self) -> None:
        """Says that the optimizer has stepped."""
        self._phases.step_ends()

    def pause(self) -> None:
        """Says that something else than training takes time now."""
        self._phases.forget()

    def close(self) -> None:
        """Emits what is on its way; waits for the device."""
        self._arrivals.drain()

    def _check(self, step: int, batch: torch.Tensor | None) -> None:
        found = self._parameters.gradients()
        time_ns = time.time_ns()
        if batch is not None:
            self._push(step, time_ns, ("batch_checksum", "", ()), Checksums([batch]))
        # Of weights also those without a gradient at this step: ranks need not use the same parameters.
        trained = [
            pair for pair in zip(self._parameters.names, self._parameters.tensors, strict=True) if pair[1].requires_grad
        ]
        self._check_all(step, time_ns, "weight", trained)
        self._check_all(step, time_ns, "gradient", list(zip(found.names, found.tensors, strict=True)))

    def _check_all(self, step: int, time_ns: int, kind: str, named: list[tuple[str, torch.Tensor]]) -> None:
        names = tuple(name for name, _ in named)
        for suffix, places in self._copied(names):
            sums = Checksums([named[place][1] for place in places])
            chosen = tuple(names[place] for place in places)
            self._push(step, time_ns, (f"{kind}_checksum{suffix}", f"{kind}_bits", chosen), sums)

    def _copied(self, names: tuple[str, ...]) -> list[tuple[str, list[int]]]:
        """The places of the parameters of which other ranks have copies: the whole ones, and shards."""
        if names not in self._groups:
            whole: list[int] = []
            shards: list[int] = []
            for place, name in enumerate(names):
                placed = self.facts.of(name)
                if placed is not None and placed.has_copies and name not in self._left_out:
                    (shards if placed.part else whole).append(place)
            self._groups[names] = [pair for pair in (("", whole), ("/shards", shards)) if pair[1]]
        return self._groups[names]

    def _push(self, step: int, time_ns: int, names: tuple[str, str, tuple[str, ...]], sums: Checksums) -> None:
        """Emits sums as soon as they are on the host; ``names`` are that of all, the group of each, and the tensors."""
        self._arrivals.push(sums, partial(self._emit, step, time_ns, names, sums))

    def _emit(self, step: int, time_ns: int, names: tuple[str, str, tuple[str, ...]], sums: Checksums) -> None:
        total, each, tensors = names
        found = sums.resolve()
        values = np.append(as_numbers(found), together(found)) if tensors else np.array([together(found)])
        full = [*(f"{PREFIX}{each}/{name}" for name in tensors), f"{PREFIX}{total}"]
        self._emitter.scalars(full, values, step=step, time_ns=time_ns)
