"""More healthy trainings that look odd: in their losses, their batches, their schedules and their models."""

import torch
from torch import nn
from torch.nn import functional

from examples.zoo.cases import Watch, healthy
from examples.zoo.datasets import Data, breast_cancer, digits, wine
from examples.zoo.loops import accuracy, binary_accuracy, fit, predicted
from examples.zoo.tuned.opened4.material import (
    cells,
    convnet,
    explained,
    mlp,
    recalled,
    scaled,
)  # fmt: skip


@healthy(at_least=0.75)
def two_views_told_apart_within_a_batch(watch: Watch, *, seed):
    """A contrastive loss: the other samples of the batch are the negatives, and there are no labels."""
    data = digits(seed)
    model = nn.Sequential(*mlp(64, 96, 16))
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)
    session = watch(model, optimizer)
    for rows, _ in data.batches(96, 180):
        views = [rows * (torch.rand_like(rows) > 0.2) + 0.05 * torch.randn_like(rows) for _ in range(2)]
        first, second = (functional.normalize(model(view), dim=-1) for view in views)
        scores = first @ second.T / 0.1
        goal = torch.arange(len(rows))
        loss = 0.5 * (functional.cross_entropy(scores, goal) + functional.cross_entropy(scores.T, goal))
        optimizer.zero_grad()
        loss.backward()
        session.step(loss, inputs=views[0], outputs=first)
        optimizer.step()
    known, asked = (functional.normalize(predicted(model, one), dim=-1) for one in (data.inputs, data.test_inputs))
    return (data.targets[(asked @ known.T).argmax(-1)] == data.test_targets).float().mean().item()


@healthy(at_least=0.85)
def triplets_of_which_most_are_easy(watch: Watch, *, seed):
    """A triplet loss that is exactly 0 for most triplets towards the end."""
    data = digits(seed)
    model = mlp(64, 64, 16)
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)
    session = watch(model, optimizer)
    by_class = [(data.targets == one).nonzero()[:, 0] for one in range(10)]
    for _ in range(180):
        classes = torch.stack([torch.randperm(10)[:2] for _ in range(64)])
        anchor, positive, negative = (
            torch.stack([by_class[one][torch.randint(len(by_class[one]), ())] for one in classes[:, column].tolist()])
            for column in (0, 0, 1)
        )
        outputs = [model(data.inputs[rows]) for rows in (anchor, positive, negative)]
        loss = functional.triplet_margin_loss(*outputs, margin=0.5)
        optimizer.zero_grad()
        loss.backward()
        session.step(loss, inputs=data.inputs[anchor], outputs=outputs[0])
        optimizer.step()
    known, asked = predicted(model, data.inputs), predicted(model, data.test_inputs)
    return (data.targets[torch.cdist(asked, known).argmin(-1)] == data.test_targets).float().mean().item()


@healthy(at_least=0.9)
def hinge_that_is_satisfied(watch: Watch, *, seed):
    """A linear support vector machine: samples beyond the margin have no gradient."""
    data = breast_cancer(seed)
    data = Data(data.inputs, data.targets * 2.0 - 1, data.test_inputs, data.test_targets * 2.0 - 1)
    model = nn.Sequential(nn.Linear(30, 1), nn.Flatten(0))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.02, momentum=0.9, weight_decay=1e-3)

    def hinge(scores, signs):
        return (1 - signs * scores).relu().mean()

    fit(watch, model, optimizer, data, steps=180, batch_size=32, loss_function=hinge, validate_every=60)
    return binary_accuracy(model, data)


@healthy(at_least=0.8)
def two_heads_that_take_turns(watch: Watch, *, seed):
    """Even steps train one task and odd steps the other, so that half of the heads has no gradient."""

    class Heads(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.trunk = nn.Sequential(nn.Linear(64, 48), nn.ReLU())
            self.which, self.parity = nn.Linear(48, 10), nn.Linear(48, 2)

        def forward(self, rows: torch.Tensor, task: str) -> torch.Tensor:
            return getattr(self, task)(self.trunk(rows))

    data, model = digits(seed), Heads()
    optimizer = torch.optim.AdamW(model.parameters(), lr=4e-3)
    session = watch(model, optimizer)
    for step, (rows, labels) in enumerate(data.batches(64, 240)):
        task = "parity" if step % 2 else "which"
        goal = labels % 2 if step % 2 else labels
        logits = model(rows, task)
        loss = functional.cross_entropy(logits, goal)
        optimizer.zero_grad()
        loss.backward()
        session.step(loss, inputs=rows, outputs=logits, targets=goal)
        optimizer.step()
    model.eval()
    with torch.no_grad():
        return (model(data.test_inputs, "which").argmax(-1) == data.test_targets).float().mean().item()


@healthy(at_least=0.9)
def gentle_fine_tuning_of_a_trained_network(watch: Watch, *, seed):
    """A network that is nearly done goes on with a hundredth of the rate: hardly anything moves, and all is well."""
    data = digits(seed, images=True)
    model = convnet(12)
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    for images, labels in data.batches(64, 180):
        optimizer.zero_grad()
        functional.cross_entropy(model(images), labels).backward()
        optimizer.step()
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-5)
    fit(watch, model, optimizer, data, steps=120, batch_size=64, validate_every=40)
    return accuracy(model, data)


@healthy(at_least=0.9)
def quasi_newton_with_a_closure(watch: Watch, *, seed):
    data = wine(seed)
    model = mlp(13, 12, 3, activation=nn.Tanh)
    optimizer = torch.optim.LBFGS(model.parameters(), lr=0.5, max_iter=4, history_size=8)
    session = watch(model, optimizer)

    def closure():
        optimizer.zero_grad()
        logits = model(data.inputs)
        loss = functional.cross_entropy(logits, data.targets)
        loss = loss + 1e-3 * sum(one.square().sum() for one in model.parameters())
        loss.backward()
        return loss

    for _ in range(60):
        session.step(inputs=data.inputs, targets=data.targets)
        optimizer.step(closure)
    return accuracy(model, data)


@healthy(at_least=0.75)
def three_quantiles_at_once(watch: Watch, *, seed):
    """Pinball losses of the 10th, 50th and 90th percentile against one column, on purpose."""
    data = scaled(cells(seed), targets=True)
    levels = torch.tensor([0.1, 0.5, 0.9])
    model = mlp(20, 48, 3)
    optimizer = torch.optim.Adam(model.parameters(), lr=4e-3)

    def pinball(outputs, values):
        error = values.expand_as(outputs) - outputs
        return torch.maximum(levels * error, (levels - 1) * error).mean()

    fit(watch, model, optimizer, data, steps=220, batch_size=48, loss_function=pinball)
    return explained(predicted(model, data.test_inputs)[:, 1:2], data.test_targets)


@healthy(at_least=0.85)
def rare_class_that_is_found_all_the_same(watch: Watch, *, seed):
    """One in ten is a zero; without any weights the network finds it."""
    data = digits(seed)
    data = Data(data.inputs, (data.targets == 0).long(), data.test_inputs, (data.test_targets == 0).long())
    model = mlp(64, 32, 2)
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    fit(watch, model, optimizer, data, steps=160, batch_size=64, validate_every=40)
    return recalled(predicted(model, data.test_inputs), data.test_targets)
