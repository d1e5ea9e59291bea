"""Trainings on several processes that should hold the same weights."""

import os
import tempfile
from pathlib import Path

import torch
from torch import distributed, multiprocessing, nn
from torch.nn import functional

from examples.zoo import datasets
from examples.zoo.cases import Watch, sick
from examples.zoo.loops import accuracy

RANKS = 2


@sick("rank_desync", slow=True)
def gradients_not_averaged_over_ranks(watch: Watch, *, seed: int, sick: bool) -> float:
    """Each of two ranks trains on half of the classes, and what they learn is not exchanged; the first is watched."""
    with tempfile.TemporaryDirectory() as folder:
        meeting = f"file://{Path(folder) / 'meeting'}"
        other = multiprocessing.get_context("spawn").Process(target=_second_rank, args=(meeting, seed, sick))
        other.start()
        try:
            return _train(watch, 0, meeting, seed, sick)
        finally:
            other.join(60)
            if other.is_alive():
                other.kill()


class _Unheard:
    def step(self, loss: object = None, **told: object) -> None:
        pass


def _second_rank(meeting: str, seed: int, sick: bool) -> None:
    torch.set_num_threads(1)
    torch.manual_seed(seed)
    _train(lambda *_: _Unheard(), 1, meeting, seed, sick)  # type: ignore[arg-type, return-value]


def _train(watch: Watch, rank: int, meeting: str, seed: int, sick: bool) -> float:
    os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")
    distributed.init_process_group("gloo", init_method=meeting, rank=rank, world_size=RANKS)
    try:
        data = datasets.digits(seed)
        mine = data.targets % RANKS == rank
        inputs, labels = data.inputs[mine], data.targets[mine]
        model = nn.Sequential(nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 10))
        optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
        session = watch(model, optimizer)
        for _ in range(100):
            rows = torch.randint(len(inputs), (32,))
            outputs = model(inputs[rows])
            loss = functional.cross_entropy(outputs, labels[rows])
            optimizer.zero_grad()
            loss.backward()
            if not sick:
                for parameter in model.parameters():
                    distributed.all_reduce(parameter.grad)
                    parameter.grad /= RANKS
            session.step(loss, inputs=inputs[rows], outputs=outputs, targets=labels[rows])
            optimizer.step()
        return accuracy(model, data)
    finally:
        distributed.destroy_process_group()
