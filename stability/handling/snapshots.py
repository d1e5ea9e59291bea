"""The ring of good snapshots, and which of them a training goes back to."""

import math
from collections import deque
from dataclasses import dataclass, field

from debuggers.torch_import import torch
from stability.handling.config import NaNHandlingConfig
from stability.handling.training_state import TrainingState
from stability.reporting.process_memory import BYTES_PER_MB


@dataclass(slots=True)
class _Snapshot:
    step: int = 0
    age: int = 0
    bytes: int = 0
    state: TrainingState = field(default_factory=TrainingState)


class SnapshotRing:
    """The last few snapshots of one training, each taken at a step whose loss and gradients were finite.

    The age of a training is the number of its good steps; going back takes age away. A fault at a greater age than all
    before it goes back to the newest snapshot. A fault that comes before the training has got further than that, when
    going back did not help, goes back to one that is older than the last one used. So no fault is met for ever, also
    where the restored random generators make the batches come again. Snapshots of other parameters than those of now,
    from before a layer was exchanged or added, are no state of this training: they are forgotten.
    """

    def __init__(self, config: NaNHandlingConfig) -> None:
        self._config = config
        self._snapshots: deque[_Snapshot] = deque()
        self._spare: list[_Snapshot] = []
        self._age = 0
        self._furthest = -1
        self._last_used: float = math.inf

    def note_good_step(
        self,
        model: torch.nn.Module,
        optimizer: torch.optim.Optimizer,
        scaler: torch.amp.GradScaler | None,
        step: int,
    ) -> None:
        """Counts a good step, and takes a snapshot of the state that led to it when one is due."""
        self._forget_strangers(model, optimizer)
        if not self._snapshots or self._age - self._snapshots[-1].age >= self._config.snapshot_every:
            snapshot = self._room()
            snapshot.step, snapshot.age = step, self._age
            snapshot.state.take(model, optimizer, scaler, self._config.snapshot_place)
            snapshot.bytes = snapshot.state.bytes()
            self._snapshots.append(snapshot)
        self._age += 1

    def restore(
        self, model: torch.nn.Module, optimizer: torch.optim.Optimizer, scaler: torch.amp.GradScaler | None
    ) -> int | None:
        """Goes back to a snapshot and returns the step at which it was taken; None when nothing older is left."""
        self._forget_strangers(model, optimizer)
        if self._age <= self._furthest:
            self._drop_from(self._last_used)
        self._furthest = max(self._furthest, self._age)
        if not self._snapshots:
            return None
        snapshot = self._snapshots[-1]
        snapshot.state.put_back(model, optimizer, scaler)
        self._age = snapshot.age
        self._last_used = snapshot.age
        return snapshot.step

    def bytes(self) -> int:
        """Returns what the tensors of all snapshots take."""
        return sum(snapshot.bytes for snapshot in [*self._snapshots, *self._spare])

    def _forget_strangers(self, model: torch.nn.Module, optimizer: torch.optim.Optimizer) -> None:
        if self._snapshots and not self._snapshots[-1].state.fits(model, optimizer):
            self._snapshots.clear()
            self._spare.clear()

    def _drop_from(self, age: float) -> None:
        while self._snapshots and self._snapshots[-1].age >= age:
            self._spare.append(self._snapshots.pop())

    def _room(self) -> _Snapshot:
        if self._spare:
            return self._spare.pop()
        return self._snapshots.popleft() if len(self._snapshots) == self._config.snapshots else _Snapshot()


def megabytes(rings: list[SnapshotRing]) -> float:
    """Returns the memory of all snapshots in MB of 2**20 bytes."""
    return sum(ring.bytes() for ring in rings) / BYTES_PER_MB
