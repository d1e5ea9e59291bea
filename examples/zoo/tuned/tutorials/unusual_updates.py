"""Updates that are unusual: by a second optimizer that begins later, by a mean of weights, and of bfloat16 weights."""

import copy
import math

import torch
from torch import nn
from torch.nn import functional

from examples.zoo import datasets
from examples.zoo.cases import Watch, healthy
from examples.zoo.loops import accuracy


class _Cell(nn.Module):
    """A sum of three layers, with weights that are learnt."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.last = nn.Linear(64, 32), nn.Linear(32, 10)
        relu, tanh = (nn.Sequential(nn.Linear(32, 32), act) for act in (nn.ReLU(), nn.Tanh()))
        self.ways = nn.ModuleList([relu, tanh, nn.Identity()])
        self.alphas = nn.Parameter(1e-3 * torch.randn(3))

    def forward(self, pixels: torch.Tensor) -> torch.Tensor:
        hidden = functional.relu(self.first(pixels))
        shares = functional.softmax(self.alphas, 0)
        return self.last(
            sum((share * way(hidden) for share, way in zip(shares, self.ways, strict=True)), torch.zeros(()))
        )


@healthy(at_least=0.8)
def an_architecture_that_is_searched_later(watch: Watch, *, seed: int) -> float:
    """DARTS after a warm-up: an optimizer of its own, on rows of its own, moves the architecture from step 60 on."""
    data = datasets.digits(seed)
    model = _Cell()
    weights = [parameter for name, parameter in model.named_parameters() if name != "alphas"]
    optimizer = torch.optim.SGD(weights, lr=0.1, momentum=0.9, weight_decay=3e-4)
    of_alphas = torch.optim.Adam([model.alphas], lr=3e-3, betas=(0.5, 0.999), weight_decay=1e-3)
    session = watch(model, optimizer)
    half = len(data.inputs) // 2
    for step in range(300):
        if step >= 60:
            rows = half + torch.randint(half, (64,))
            of_alphas.zero_grad()
            functional.cross_entropy(model(data.inputs[rows]), data.targets[rows]).backward()
            of_alphas.step()
        rows = torch.randint(half, (64,))
        optimizer.zero_grad()
        outputs = model(data.inputs[rows])
        loss = functional.cross_entropy(outputs, data.targets[rows])
        loss.backward()
        nn.utils.clip_grad_norm_(weights, 5.0)
        session.step(loss, inputs=data.inputs[rows], outputs=outputs, targets=data.targets[rows])
        optimizer.step()
    return accuracy(model, data)


def _wave(places: torch.Tensor) -> torch.Tensor:
    return (0.5 + 1.5 * torch.rand(())) * torch.sin(places + 2 * math.pi * torch.rand(()))


def _error_of_a_new_task(model: nn.Module, places: torch.Tensor) -> float:
    """The error on a wave after 32 steps on ten of its points."""
    learner = copy.deepcopy(model)
    optimizer = torch.optim.SGD(learner.parameters(), lr=0.02)
    wave, rows = _wave(places), torch.randperm(len(places))[:10]
    for _ in range(32):
        optimizer.zero_grad()
        functional.mse_loss(learner(places[rows]), wave[rows]).backward()
        optimizer.step()
    with torch.no_grad():
        return functional.mse_loss(learner(places), wave).item()


@healthy(at_least=0.2)
def a_start_for_many_tasks(watch: Watch, *, seed: int) -> float:
    """Reptile: after five steps on a wave, the weights go a part of the way back; the mean of all waves is zero."""
    model = nn.Sequential(nn.Linear(1, 40), nn.Tanh(), nn.Linear(40, 40), nn.Tanh(), nn.Linear(40, 1))
    untrained = copy.deepcopy(model)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.02)
    session = watch(model, optimizer)
    places = torch.linspace(-5, 5, 50)[:, None]
    for task in range(80):
        before, wave = copy.deepcopy(model.state_dict()), _wave(places)
        for rows in torch.randperm(50).split(10):
            optimizer.zero_grad()
            outputs = model(places[rows])
            loss = functional.mse_loss(outputs, wave[rows])
            loss.backward()
            session.step(loss, inputs=places[rows], outputs=outputs, targets=wave[rows])
            optimizer.step()
        after, share = model.state_dict(), 0.3 * (1 - task / 80)
        model.load_state_dict({name: old + share * (after[name] - old) for name, old in before.items()})
    errors = [sum(_error_of_a_new_task(start, places) for _ in range(40)) for start in (model, untrained)]
    return 1 - errors[0] / errors[1]


@healthy(at_least=0.85)
def all_in_bfloat16(watch: Watch, *, seed: int) -> float:
    """Weights, states and activations in bfloat16: Adam's steps of 0.001 are large enough not to be rounded away."""
    data = datasets.digits(seed)
    model = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 10)).to(torch.bfloat16)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    session = watch(model, optimizer)
    for inputs, labels in data.batches(64, 300):
        optimizer.zero_grad()
        outputs = model(inputs.to(torch.bfloat16))
        loss = functional.cross_entropy(outputs.float(), labels)
        loss.backward()
        session.step(loss, inputs=inputs, outputs=outputs, targets=labels)
        optimizer.step()
    found = model(data.test_inputs.to(torch.bfloat16)).argmax(1)
    return (found == data.test_targets).float().mean().item()
