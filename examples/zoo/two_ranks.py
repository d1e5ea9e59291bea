"""Runs a training on two processes, the first of which is watched."""

import os
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeAlias

import torch
from torch import distributed, multiprocessing

from examples.zoo.cases import Watch

RANKS = 2
Train: TypeAlias = Callable[[Watch, int, int, bool], float]
"""What a rank does: takes how its training is watched, its number, the seed, and whether the training is sick."""


def on_two_ranks(train: Train, watch: Watch, *, seed: int, sick: bool) -> float:
    """Returns what the first rank of a training returns; ``train`` is a function of a module, so that it is pickled."""
    with tempfile.TemporaryDirectory() as folder:
        meeting = f"file://{Path(folder) / 'meeting'}"
        other = multiprocessing.get_context("spawn").Process(target=_second_rank, args=(train, meeting, seed, sick))
        other.start()
        try:
            return _joined(train, watch, 0, meeting, seed=seed, sick=sick)
        finally:
            other.join(60)
            if other.is_alive():
                other.kill()


class _Unheard:
    def step(self, loss: object = None, **told: object) -> None:
        pass


def _second_rank(train: Train, meeting: str, seed: int, sick: bool) -> None:
    torch.set_num_threads(1)
    torch.manual_seed(seed)
    unheard: Any = lambda *_: _Unheard()  # noqa: E731
    _joined(train, unheard, 1, meeting, seed=seed, sick=sick)


def _joined(train: Train, watch: Watch, rank: int, meeting: str, *, seed: int, sick: bool) -> float:
    os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")
    distributed.init_process_group("gloo", init_method=meeting, rank=rank, world_size=RANKS)
    try:
        return train(watch, rank, seed, sick)
    finally:
        distributed.destroy_process_group()
