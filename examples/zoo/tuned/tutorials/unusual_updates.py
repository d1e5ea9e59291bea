"""Updates that are unusual: by a second optimizer that begins later, and of weights in bfloat16."""

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
