"""All rows in each step, because there are few of them."""

import torch
from torch import nn
from torch.nn import functional

from examples.zoo import datasets
from examples.zoo.cases import Watch, healthy
from examples.zoo.loops import binary_accuracy


@healthy(at_least=0.9)
def a_curve_through_thirty_points(watch: Watch, *, seed: int) -> float:
    """A tutorial's figure: thirty noisy points, all of them in each step, and fewer numbers than weights."""
    places = torch.linspace(-1, 1, 30)[:, None]
    heights = torch.sin(3 * places) + 0.1 * torch.randn(30, 1)
    model = nn.Sequential(nn.Linear(1, 20), nn.Tanh(), nn.Linear(20, 1))
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-2, weight_decay=1e-4)
    session = watch(model, optimizer)
    for _ in range(250):
        optimizer.zero_grad()
        outputs = model(places)
        loss = functional.mse_loss(outputs, heights)
        loss.backward()
        session.step(loss, inputs=places, outputs=outputs, targets=heights)
        optimizer.step()
    between = torch.linspace(-0.95, 0.95, 40)[:, None]
    truth = torch.sin(3 * between)
    with torch.no_grad():
        return 1 - functional.mse_loss(model(between), truth).item() / truth.var().item()


@healthy(at_least=0.5)
def a_head_on_forty_pictures(watch: Watch, *, seed: int) -> float:
    """Few-shot learning: eight pictures of each new class are all there is, and the body that sees them is frozen."""
    data = datasets.digits(seed)
    body = nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 64), nn.ReLU())
    known = (data.targets < 5).nonzero()[:, 0]
    before = nn.Sequential(body, nn.Linear(64, 5))
    optimizer = torch.optim.Adam(before.parameters(), lr=2e-3)
    for _ in range(8):
        for rows in known[torch.randperm(len(known))].split(64):
            optimizer.zero_grad()
            functional.cross_entropy(before(data.inputs[rows]), data.targets[rows]).backward()
            optimizer.step()
    shots = torch.cat([(data.targets == label).nonzero()[:8, 0] for label in range(5, 10)])
    inputs, labels = data.inputs[shots], data.targets[shots] - 5
    model = nn.Sequential(body.requires_grad_(False), nn.Linear(64, 5))
    optimizer = torch.optim.Adam(model[1].parameters(), lr=1e-2)
    session = watch(model, optimizer)
    for _ in range(80):
        optimizer.zero_grad()
        outputs = model(inputs)
        loss = functional.cross_entropy(outputs, labels)
        loss.backward()
        session.step(loss, inputs=inputs, outputs=outputs, targets=labels)
        optimizer.step()
    new = data.test_targets >= 5
    with torch.no_grad():
        return (model(data.test_inputs[new]).argmax(1) == data.test_targets[new] - 5).float().mean().item()


@healthy(at_least=0.95)
def exclusive_or(watch: Watch, *, seed: int) -> float:
    """The oldest example: four rows are the whole table of a function, and there are no others to learn from."""
    inputs = torch.tensor([[0.0, 0.0], [0.0, 1.0], [1.0, 0.0], [1.0, 1.0]])
    labels = torch.tensor([[0.0], [1.0], [1.0], [0.0]])
    model = nn.Sequential(nn.Linear(2, 8), nn.Tanh(), nn.Linear(8, 1), nn.Sigmoid())
    optimizer = torch.optim.Adam(model.parameters(), lr=0.05)
    session = watch(model, optimizer)
    criterion = nn.BCELoss()
    for _ in range(200):
        optimizer.zero_grad()
        outputs = model(inputs)
        loss = criterion(outputs, labels)
        loss.backward()
        session.step(loss, inputs=inputs, outputs=outputs, targets=labels)
        optimizer.step()
    return 1 - (model(inputs) - labels).abs().max().item()


@healthy(at_least=0.9)
def logistic_regression_with_lbfgs(watch: Watch, *, seed: int) -> float:
    """LBFGS with a line search is at the minimum after a few steps: from there on, no step changes anything."""
    data = datasets.breast_cancer(seed)
    model = nn.Linear(30, 1)
    optimizer = torch.optim.LBFGS(model.parameters(), lr=1, max_iter=10, line_search_fn="strong_wolfe")
    session = watch(model, optimizer)

    def closure() -> torch.Tensor:
        optimizer.zero_grad()
        fit = functional.binary_cross_entropy_with_logits(model(data.inputs).squeeze(1), data.targets.float())
        loss = fit + 1e-3 * model.weight.square().sum()
        loss.backward()
        return loss

    for _ in range(15):
        session.step(optimizer.step(closure))
    return binary_accuracy(model, data)
