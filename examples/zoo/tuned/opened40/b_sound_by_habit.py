"""Sound trainings whose loops, schedules, or data look odd."""

import torch
from torch import nn
from torch.nn import functional

from examples.zoo import samples
from examples.zoo.cases import Watch, healthy
from examples.zoo.datasets import Data
from examples.zoo.loops import accuracy, fit, predicted, r_squared
from examples.zoo.tuned.opened40.b_likeness import digits
from examples.zoo.tuned.opened40.b_provisions import completions, paired, series, strokes, worst
from examples.zoo.tuned.opened40.b_recurrent_readers import Recurrent


def classifier() -> nn.Sequential:
    """Returns two layers for digits."""
    return nn.Sequential(nn.Linear(64, 48), nn.ReLU(), nn.Linear(48, 10))


@healthy(at_least=0.7)
def rewards_for_named_digits(watch: Watch, *, seed: int) -> float:
    """REINFORCE: a policy names a digit, and is told whether it is right and nothing else."""
    data = digits(seed)
    model = classifier()
    optimizer = torch.optim.Adam(model.parameters(), lr=4e-3)
    session = watch(model, optimizer)
    baseline = 0.1
    for rows, labels in data.batches(64, 400):
        logits = model(rows)
        policy = torch.distributions.Categorical(logits=logits)
        actions = policy.sample()
        rewards = (actions == labels).float()
        loss = -((rewards - baseline) * policy.log_prob(actions)).mean() - 0.01 * policy.entropy().mean()
        baseline = 0.9 * baseline + 0.1 * rewards.mean().item()
        optimizer.zero_grad()
        loss.backward()
        session.step(loss, inputs=rows, outputs=logits)
        optimizer.step()
    return accuracy(model, data)


@healthy(at_least=0.85)
def a_third_of_labels_wrong(watch: Watch, *, seed: int) -> float:
    """One label in three is drawn anew, which the loss's level shows, and the rest suffice."""
    whole = digits(seed)
    wrong = torch.rand(len(whole.targets)) < 0.33
    targets = torch.where(wrong, torch.randint(10, whole.targets.shape), whole.targets)
    data = Data(whole.inputs, targets, whole.test_inputs, whole.test_targets)
    model = nn.Sequential(nn.Linear(64, 32), nn.ReLU(), nn.Dropout(0.2), nn.Linear(32, 10))
    fit(watch, model, torch.optim.AdamW(model.parameters(), lr=3e-3, weight_decay=0.1), data, steps=200)
    return accuracy(model, data)


@healthy(at_least=0.9)
def restarts_of_the_rate(watch: Watch, *, seed: int) -> float:
    """The rate falls along a cosine and jumps back up every 80 steps."""
    data = digits(seed)
    model = classifier()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    scheduler = torch.optim.lr_scheduler.CosineAnnealingWarmRestarts(optimizer, 80, eta_min=1e-3)
    fit(watch, model, optimizer, data, steps=240, scheduler=scheduler)
    return accuracy(model, data)


@healthy(at_least=0.6)
def two_tumours_a_step(watch: Watch, *, seed: int) -> float:
    """Batches of two rows, at a small rate."""
    data = worst(seed)
    model = nn.Linear(10, 10)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    fit(watch, model, optimizer, data, steps=400, batch_size=2, loss_function=functional.mse_loss)
    return samples.explained(predicted(model, data.test_inputs), data.test_targets)


@healthy(at_least=0.85)
def a_student_of_soft_answers(watch: Watch, *, seed: int) -> float:
    """A small network learns the softened answers of a larger one, which was trained before."""
    data = digits(seed)
    teacher, model = classifier(), nn.Sequential(nn.Linear(64, 16), nn.ReLU(), nn.Linear(16, 10))
    earlier = torch.optim.Adam(teacher.parameters(), lr=3e-3)
    for rows, labels in data.batches(64, 150):
        earlier.zero_grad()
        functional.cross_entropy(teacher(rows), labels).backward()
        earlier.step()
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
    session = watch(model, optimizer)
    for rows, _ in data.batches(64, 250):
        answers = predicted(teacher, rows) / 3
        outputs = model(rows)
        log_probabilities = (outputs / 3).log_softmax(1)
        loss = 9 * functional.kl_div(log_probabilities, answers.log_softmax(1), reduction="batchmean", log_target=True)
        optimizer.zero_grad()
        loss.backward()
        session.step(loss, inputs=rows, outputs=outputs, targets=answers.softmax(1))
        optimizer.step()
    return accuracy(model, data)


@healthy(at_least=0.8)
def longer_and_longer_windows(watch: Watch, *, seed: int) -> float:
    """A curriculum: a recurrent network sees the last 5 values, then 10, then 20."""
    data = series(seed)
    model = Recurrent(nn.GRU(1, 24, batch_first=True), 1)
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
    session = watch(model, optimizer)
    for step, (windows, coming) in enumerate(data.batches(64, 210)):
        seen = windows[:, -(5, 10, 20)[step // 70] :]
        outputs = model(seen)
        loss = functional.mse_loss(outputs, coming)
        optimizer.zero_grad()
        loss.backward()
        session.step(loss, inputs=seen, outputs=outputs, targets=coming)
        optimizer.step()
    return r_squared(model, data)


@healthy(at_least=0.8)
def three_quantiles_at_once(watch: Watch, *, seed: int) -> float:
    """The pinball loss of the quantiles 0.1, 0.5 and 0.9 of what comes next; the median is judged."""
    data = series(seed)
    model = nn.Sequential(nn.Flatten(), nn.Linear(20, 32), nn.ReLU(), nn.Linear(32, 3))
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    levels = torch.tensor([0.1, 0.5, 0.9])
    session = watch(model, optimizer)
    for windows, coming in data.batches(64, 250):
        outputs = model(windows)
        missed = coming - outputs
        loss = torch.maximum(levels * missed, (levels - 1) * missed).mean()
        optimizer.zero_grad()
        loss.backward()
        session.step(loss, inputs=windows, outputs=outputs, targets=coming.expand(-1, 3))
        optimizer.step()
    return samples.explained(predicted(model, data.test_inputs)[:, 1:2], data.test_targets)


@healthy(at_least=0.85)
def four_small_batches_averaged(watch: Watch, *, seed: int) -> float:
    """Gradients of four batches are accumulated, each of a quarter of its loss."""
    data = strokes(seed)
    model = Recurrent(nn.GRU(8, 32, batch_first=True), 10)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    session = watch(model, optimizer)
    for step, (lines, labels) in enumerate(data.batches(16, 400), 1):
        outputs = model(lines)
        loss = functional.cross_entropy(outputs, labels)
        (loss / 4).backward()
        if step % 4 == 0:
            session.step(loss, inputs=lines, outputs=outputs, targets=labels)
            optimizer.step()
            optimizer.zero_grad()
    return accuracy(model, data)


@healthy(at_least=0.85)
def a_body_frozen_on_purpose(watch: Watch, *, seed: int) -> float:
    """Convolutions that learnt to tell digits' numbers apart are frozen in eval mode, and a new head is trained."""
    data = paired(samples.numerals(seed))
    body = nn.Sequential(nn.Conv2d(1, 12, 3), nn.BatchNorm2d(12), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten())
    before = nn.Sequential(body, nn.Linear(108, 10))
    earlier = torch.optim.Adam(before.parameters(), lr=3e-3)
    for images, labels in data.batches(64, 80):
        earlier.zero_grad()
        functional.cross_entropy(before(images), labels).backward()
        earlier.step()
    body.requires_grad_(False).eval()
    head = nn.Linear(108, 2)
    model = nn.Sequential(body, head)
    optimizer = torch.optim.Adam(head.parameters(), lr=5e-3)
    session = watch(model, optimizer)
    for images, labels in data.batches(64, 150):
        outputs = model(images)
        loss = functional.cross_entropy(outputs, labels % 2)
        optimizer.zero_grad()
        loss.backward()
        session.step(loss, inputs=images, outputs=outputs, targets=labels % 2)
        optimizer.step()
    model.eval()
    return (predicted(model, data.test_inputs).argmax(1) == data.test_targets % 2).float().mean().item()


@healthy(at_least=0.4)
def halves_that_leave_most_units_at_rest(watch: Watch, *, seed: int) -> float:
    """A penalty on hidden ReLUs keeps most of them at 0 for any one picture."""
    data = completions(seed)
    first, second = nn.Sequential(nn.Linear(32, 96), nn.ReLU()), nn.Linear(96, 32)
    model = nn.Sequential(first, second)
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    session = watch(model, optimizer)
    for upper, lower in data.batches(64, 250):
        hidden = first(upper)
        outputs = second(hidden)
        loss = functional.mse_loss(outputs, lower) + 0.01 * hidden.mean()
        optimizer.zero_grad()
        loss.backward()
        session.step(loss, inputs=upper, outputs=outputs, targets=lower)
        optimizer.step()
    return samples.explained(predicted(model, data.test_inputs), data.test_targets)
