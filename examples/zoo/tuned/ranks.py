"""Trainings on several processes that should hold the same weights."""

import torch
from torch import distributed, nn
from torch.nn import functional

from examples.zoo import datasets
from examples.zoo.cases import Watch, sick
from examples.zoo.loops import accuracy
from examples.zoo.two_ranks import RANKS, on_two_ranks


@sick("rank_desync", slow=True)
def gradients_not_averaged_over_ranks(watch: Watch, *, seed: int, sick: bool) -> float:
    """Each of two ranks trains on half of the classes, and what they learn is not exchanged; the first is watched."""
    return on_two_ranks(_train, watch, seed=seed, sick=sick)


def _train(watch: Watch, rank: int, seed: int, sick: bool) -> float:
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
