"""Trainings on several tasks or micro-batches, in which what happens between two steps is right or wrong."""

import torch
from torch import nn
from torch.nn import functional
from torch.utils.data import DataLoader

from examples.zoo import datasets, samples
from examples.zoo.cases import Watch, healthy, sick
from examples.zoo.tuned.opened16.b_material import explained


class _TwoTasks(nn.Module):
    """A digit's number, and its lower half, from its upper half."""

    def __init__(self) -> None:
        super().__init__()
        self.shared = nn.Sequential(nn.Linear(32, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU())
        self.number, self.lower = nn.Linear(64, 10), nn.Linear(64, 32)

    def forward(self, upper: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        hidden = self.shared(upper)
        return self.number(hidden), self.lower(hidden)


def _halves(seed: int) -> samples.Pair:
    """Returns upper halves about zero, lower halves, and numbers of digits."""
    data = datasets.digits(seed)
    images, labels = torch.cat([data.inputs, data.test_inputs]), torch.cat([data.targets, data.test_targets])
    return samples.split(seed, 2.5 * (images[:, :32] - 0.3), images[:, 32:], labels)


@torch.no_grad()
def _both(model: nn.Module, test: tuple[torch.Tensor, ...]) -> float:
    """Returns the mean of the accuracy and of R² of the lower halves."""
    logits, lower = model(test[0])
    accuracy = (logits.argmax(1) == test[2]).float().mean().item()
    return (accuracy + explained(lower, test[1])) / 2


@sick("gradients_not_zeroed")
def only_the_heads_are_zeroed(watch: Watch, *, seed: int, sick: bool) -> float:
    """Heads are zeroed in each step, but the shared layers' gradients add up for good; the twin zeroes all of them."""
    train, test = _halves(seed)
    model = _TwoTasks()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    session = watch(model, optimizer)
    for _ in range(6):
        for upper, lower, numbers in DataLoader(train, 32, shuffle=True):
            if sick:
                model.number.zero_grad()
                model.lower.zero_grad()
            else:
                model.zero_grad()
            logits, outputs = model(upper)
            loss = functional.cross_entropy(logits, numbers) + 4 * functional.mse_loss(outputs, lower)
            loss.backward()
            session.step(loss, inputs=upper, outputs=logits, targets=numbers)
            optimizer.step()
    return _both(model, test.tensors)


@sick("no_update")
def zeroed_between_backward_and_step(watch: Watch, *, seed: int, sick: bool) -> float:
    """zero_grad stands after the backward pass of the summed tasks, so steps have none; the twin's before it."""
    train, test = _halves(seed)
    model = _TwoTasks()
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    session = watch(model, optimizer)
    for _ in range(6):
        for upper, lower, numbers in DataLoader(train, 40, shuffle=True):
            logits, outputs = model(upper)
            loss = functional.cross_entropy(logits, numbers) + 4 * functional.mse_loss(outputs, lower)
            if sick:
                loss.backward()
                optimizer.zero_grad()
            else:
                optimizer.zero_grad()
                loss.backward()
            session.step(loss, inputs=upper, outputs=logits, targets=numbers)
            optimizer.step()
    return _both(model, test.tensors)


@sick("accumulation_not_averaged")
def sixteen_micro_batches_added_up(watch: Watch, *, seed: int, sick: bool) -> float:
    """Gradients of sixteen micro-batches are added at a rate for their mean; the twin divides each loss by sixteen."""
    train, test = samples.numerals(seed)
    model = nn.Sequential(
        nn.Conv2d(1, 16, 3), nn.ReLU(), nn.Conv2d(16, 16, 3), nn.ReLU(), nn.Flatten(), nn.Linear(256, 10)
    )
    optimizer = torch.optim.SGD(model.parameters(), lr=0.15, momentum=0.9)
    session = watch(model, optimizer)
    parts = 16
    for _ in range(4):
        for images, labels in DataLoader(train, 64, shuffle=True, drop_last=True):
            optimizer.zero_grad()
            for some, their in zip(images.split(4), labels.split(4), strict=True):
                logits = model(some)
                loss = functional.cross_entropy(logits, their)
                (loss if sick else loss / parts).backward()
            session.step(loss, inputs=some, outputs=logits, targets=their)
            optimizer.step()
    with torch.no_grad():
        return (model(test.tensors[0]).argmax(1) == test.tensors[1]).float().mean().item()


@sick("clipping_too_strong")
def a_norm_of_a_thousandth(watch: Watch, *, seed: int, sick: bool) -> float:
    """SGD whose gradients are clipped to a norm of 0.001, as a recipe for another loss has it; the twin clips to 5."""
    train, test = samples.halves(seed)
    model = nn.Sequential(nn.Linear(32, 64), nn.Tanh(), nn.Linear(64, 32))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.5, momentum=0.9)
    session = watch(model, optimizer)
    for _ in range(8):
        for upper, lower in DataLoader(train, 40, shuffle=True):
            outputs = model(upper)
            loss = functional.mse_loss(outputs, lower)
            optimizer.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 1e-3 if sick else 5.0)
            session.step(loss, inputs=upper, outputs=outputs, targets=lower)
            optimizer.step()
    with torch.no_grad():
        return explained(model(test.tensors[0]), test.tensors[1])


@sick("schedule_collapsed")
def decay_of_an_epoch_in_each_step(watch: Watch, *, seed: int, sick: bool) -> float:
    """A factor of 0.8 for each epoch is applied in each step: after 40 steps nothing moves; the twin waits."""
    train, test = _halves(seed)
    model = _TwoTasks()
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)
    schedule = torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.8)
    session = watch(model, optimizer)
    for _ in range(8):
        for upper, lower, numbers in DataLoader(train, 40, shuffle=True):
            logits, outputs = model(upper)
            loss = functional.cross_entropy(logits, numbers) + 4 * functional.mse_loss(outputs, lower)
            optimizer.zero_grad()
            loss.backward()
            session.step(loss, inputs=upper, outputs=logits, targets=numbers)
            optimizer.step()
            if sick:
                schedule.step()
        if not sick:
            schedule.step()
    return _both(model, test.tensors)


@sick("learning_rate_too_high")
def adam_at_the_rate_of_sgd(watch: Watch, *, seed: int, sick: bool) -> float:
    """The optimizer was changed from SGD to Adam and its rate of 0.3 was kept; the twin takes 0.003."""
    train, test = _halves(seed)
    model = _TwoTasks()
    optimizer = torch.optim.Adam(model.parameters(), lr=0.3 if sick else 3e-3)
    session = watch(model, optimizer)
    for _ in range(6):
        for upper, lower, numbers in DataLoader(train, 40, shuffle=True):
            logits, outputs = model(upper)
            loss = functional.cross_entropy(logits, numbers) + 4 * functional.mse_loss(outputs, lower)
            optimizer.zero_grad()
            loss.backward()
            session.step(loss, inputs=upper, outputs=logits, targets=numbers)
            optimizer.step()
    return _both(model, test.tensors)


@sick("detached_parameters")
def features_kept_without_their_graph(watch: Watch, *, seed: int, sick: bool) -> float:
    """Shared features are computed once and detached for both heads, so they never learn; the twin keeps the graph."""
    train, test = _halves(seed)
    model = _TwoTasks()
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    session = watch(model, optimizer)
    for _ in range(8):
        for upper, lower, numbers in DataLoader(train, 40, shuffle=True):
            features = model.shared(upper)
            if sick:
                features = features.detach()
            logits, outputs = model.number(features), model.lower(features)
            loss = functional.cross_entropy(logits, numbers) + 4 * functional.mse_loss(outputs, lower)
            optimizer.zero_grad()
            loss.backward()
            session.step(loss, inputs=upper, outputs=logits, targets=numbers)
            optimizer.step()
    return _both(model, test.tensors)


@healthy(at_least=0.5)
def gradients_of_two_tasks_projected(watch: Watch, *, seed: int) -> float:
    """Each task has a backward pass; where their gradients disagree, one is turned until it does not."""
    train, test = _halves(seed)
    model = _TwoTasks()
    shared = list(model.shared.parameters())
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    session = watch(model, optimizer)
    for _ in range(6):
        for upper, lower, numbers in DataLoader(train, 40, shuffle=True):
            logits, outputs = model(upper)
            first, second = functional.cross_entropy(logits, numbers), 4 * functional.mse_loss(outputs, lower)
            one = torch.autograd.grad(first, shared, retain_graph=True)
            optimizer.zero_grad()
            (first + second).backward()
            two = [weight.grad - mine for weight, mine in zip(shared, one, strict=True)]
            product = sum((mine * other).sum() for mine, other in zip(one, two, strict=True))
            if product < 0:
                size = sum(mine.square().sum() for mine in one)
                for weight, mine in zip(shared, one, strict=True):
                    weight.grad = weight.grad - product / size * mine
            session.step(first + second, inputs=upper, outputs=logits, targets=numbers)
            optimizer.step()
    return _both(model, test.tensors)


@healthy(at_least=0.5)
def tasks_by_turns_with_an_optimizer_each(watch: Watch, *, seed: int) -> float:
    """Odd steps train the numbers, even steps the lower halves: two losses of two sizes, and one shared trunk."""
    train, test = _halves(seed)
    model = _TwoTasks()
    numbering = torch.optim.Adam([*model.shared.parameters(), *model.number.parameters()], lr=2e-3)
    painting = torch.optim.Adam([*model.shared.parameters(), *model.lower.parameters()], lr=2e-3)
    of_numbers = nn.ModuleList([model.shared, model.number])
    of_halves = nn.ModuleList([model.shared, model.lower])
    first, second = watch(of_numbers, numbering), watch(of_halves, painting)
    for _ in range(6):
        for upper, lower, numbers in DataLoader(train, 40, shuffle=True):
            numbering.zero_grad()
            logits, _ = model(upper)
            loss = functional.cross_entropy(logits, numbers)
            loss.backward()
            first.step(loss, inputs=upper, outputs=logits, targets=numbers)
            numbering.step()
            painting.zero_grad()
            _, outputs = model(upper)
            loss = functional.mse_loss(outputs, lower)
            loss.backward()
            second.step(loss, inputs=upper, outputs=outputs, targets=lower)
            painting.step()
    return _both(model, test.tensors)
