"""Sound trainings with goals of an odd kind: no labels, few rows, and two tasks at once."""

import copy

import torch
from torch import nn
from torch.nn import functional

from examples.zoo import datasets, samples
from examples.zoo.cases import Watch, healthy
from examples.zoo.loops import accuracy, held_out_loss


@healthy(at_least=0.8)
def two_views_of_a_digit(watch: Watch, *, seed: int) -> float:
    """Two noisy views find each other in a batch, without labels. Quality: the neighbour's class."""
    data = datasets.digits(seed, images=True)
    body = nn.Sequential(nn.Conv2d(1, 16, 3), nn.ReLU(), nn.Flatten(), nn.Linear(576, 32))
    model = nn.Sequential(body, nn.ReLU(), nn.Linear(32, 16))
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3, weight_decay=1e-3)

    def view(images: torch.Tensor) -> torch.Tensor:
        across, down = torch.randint(-1, 2, (2,)).tolist()
        moved = images.roll((across, down), (2, 3))
        return moved * (torch.rand_like(moved) > 0.15) + 0.1 * torch.randn_like(moved)

    session = watch(model, optimizer)
    for images, _ in data.batches(96, 160):
        first, second = view(images), view(images)
        scores = functional.normalize(model(first)) @ functional.normalize(model(second)).T / 0.2
        pairs = torch.arange(len(images))
        loss = 0.5 * (functional.cross_entropy(scores, pairs) + functional.cross_entropy(scores.T, pairs))
        optimizer.zero_grad()
        loss.backward()
        session.step(loss, inputs=first, outputs=scores, targets=pairs)
        optimizer.step()
    with torch.no_grad():
        known, unknown = (functional.normalize(body(part)) for part in (data.inputs, data.test_inputs))
    return (data.targets[(unknown @ known.T).argmax(1)] == data.test_targets).float().mean().item()


@healthy(at_least=0.85)
def few_wines_held_tight(watch: Watch, *, seed: int) -> float:
    """Forty-five wines: weights decay strongly, inputs are noised, units dropped; the best state is kept."""
    data = datasets.wine(seed)
    few = datasets.Data(data.inputs[:45], data.targets[:45], data.test_inputs, data.test_targets)
    model = nn.Sequential(nn.Linear(13, 32), nn.ReLU(), nn.Dropout(0.5), nn.Linear(32, 3))
    optimizer = torch.optim.AdamW(model.parameters(), lr=5e-3, weight_decay=1.0)
    session = watch(model, optimizer)
    best, kept = float("inf"), copy.deepcopy(model.state_dict())
    for step, (rows, kinds) in enumerate(few.batches(15, 150), 1):
        noised = rows + 0.3 * torch.randn_like(rows)
        scores = model(noised)
        loss = functional.cross_entropy(scores, kinds)
        optimizer.zero_grad()
        loss.backward()
        session.step(loss, inputs=noised, outputs=scores, targets=kinds)
        optimizer.step()
        if step % 15 == 0:
            held_out = held_out_loss(model, few)
            session.validation(held_out)
            if held_out < best:
                best, kept = held_out, copy.deepcopy(model.state_dict())
    model.load_state_dict(kept)
    return accuracy(model, few)


@healthy(at_least=0.4)
def two_tasks_that_weigh_themselves(watch: Watch, *, seed: int) -> float:
    """Strength and proline of a wine, with losses weighed by learnt uncertainties: the sum may go below zero."""
    train, test = samples.standardised(samples.proline(seed), 0, 1)
    kinds = torch.bucketize(train.tensors[0][:, 0], torch.tensor([-0.5, 0.5]))
    model = nn.ModuleDict({"body": nn.Linear(11, 24), "kind": nn.Linear(24, 3), "proline": nn.Linear(24, 1)})
    model.register_parameter("log_variances", nn.Parameter(torch.zeros(2)))
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-3, weight_decay=1e-3)
    session = watch(model, optimizer)
    for _ in range(200):
        rows = torch.randint(len(train), (48,))
        hidden = model["body"](train.tensors[0][rows, 1:]).relu()
        guessed = model["proline"](hidden)
        losses = torch.stack(
            [
                functional.cross_entropy(model["kind"](hidden), kinds[rows]),
                functional.mse_loss(guessed, train.tensors[1][rows]),
            ]
        )
        loss = ((-model.log_variances).exp() * losses + 0.5 * model.log_variances).sum()
        optimizer.zero_grad()
        loss.backward()
        session.step(loss, inputs=train.tensors[0][rows, 1:], outputs=guessed, targets=train.tensors[1][rows])
        optimizer.step()
    with torch.no_grad():
        return samples.explained(model["proline"](model["body"](test.tensors[0][:, 1:]).relu()), test.tensors[1])
