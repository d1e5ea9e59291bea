"""Sound trainings that look odd: rewards, teachers, masks, sparse vectors, frozen features and tiny batches."""

import copy

import torch
from torch import nn
from torch.nn import functional

from examples.zoo import datasets, samples
from examples.zoo.cases import Watch, healthy
from examples.zoo.datasets import Data
from examples.zoo.loops import accuracy, fit, predicted
from examples.zoo.tuned.opened42.b_raw_material import Recurrent, explained, files, forecasts, named, scaled_digits


@healthy(at_least=0.85)
def guesses_that_are_rewarded(watch: Watch, *, seed: int) -> float:
    """REINFORCE: a policy guesses a wine's class, and is told whether it was right; the loss is about 0 throughout."""
    data = datasets.wine(seed)
    model = nn.Sequential(nn.Linear(13, 24), nn.Tanh(), nn.Linear(24, 3))
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    session = watch(model, optimizer)
    baseline = 0.33
    for rows, labels in data.batches(32, 250):
        policy = torch.distributions.Categorical(logits=model(rows))
        guesses = policy.sample()
        rewards = (guesses == labels).float()
        loss = -(policy.log_prob(guesses) * (rewards - baseline)).mean() - 0.01 * policy.entropy().mean()
        baseline = 0.9 * baseline + 0.1 * rewards.mean().item()
        optimizer.zero_grad()
        loss.backward()
        session.step(loss, inputs=rows)
        optimizer.step()
    return accuracy(model, data)


@healthy(at_least=0.5)
def a_student_of_a_recurrent_teacher(watch: Watch, *, seed: int) -> float:
    """A bag of letters learns a finished teacher's softened scores and the labels, three to one."""
    data = named(seed)
    teacher = Recurrent(64, 8)
    tutor = torch.optim.Adam(teacher.parameters(), lr=5e-3)
    for codes, labels in data.batches(48, 120):
        tutor.zero_grad()
        functional.cross_entropy(teacher(codes), labels).backward()
        tutor.step()
    teacher.eval().requires_grad_(False)
    student = nn.Sequential(nn.EmbeddingBag(64, 32), nn.Linear(32, 64), nn.ReLU(), nn.Linear(64, 8))
    optimizer = torch.optim.AdamW(student.parameters(), lr=1e-2)
    session = watch(student, optimizer)
    for codes, labels in data.batches(48, 250):
        outputs = student(codes)
        soft = functional.kl_div((outputs / 2).log_softmax(1), (teacher(codes) / 2).softmax(1), reduction="batchmean")
        loss = 0.75 * 4 * soft + 0.25 * functional.cross_entropy(outputs, labels)
        optimizer.zero_grad()
        loss.backward()
        session.step(loss, inputs=codes, outputs=outputs, targets=labels)
        optimizer.step()
    return accuracy(student, data)


@healthy(at_least=0.6)
def rare_pairs_with_sparse_adam(watch: Watch, *, seed: int) -> float:
    """Sparse gradients of vectors for pairs of letters, most of which are in no batch."""
    data = named(seed)

    def pairs(codes: torch.Tensor) -> torch.Tensor:
        return codes[:, :-1] * 64 + codes[:, 1:]

    data = Data(pairs(data.inputs), data.targets, pairs(data.test_inputs), data.test_targets)
    model = nn.Sequential(nn.EmbeddingBag(64 * 64, 8, sparse=True, mode="mean"))
    optimizer = torch.optim.SparseAdam(model.parameters(), lr=3e-2)
    fit(watch, model, optimizer, data, steps=250, batch_size=32)
    return accuracy(model, data)


class Waves(nn.Module):
    """Fixed random cosines, and a layer that is trained."""

    def __init__(self, inward: int, outward: int) -> None:
        super().__init__()
        self.fixed, self.head = nn.Linear(inward, 300), nn.Linear(300, outward)
        nn.init.normal_(self.fixed.weight, std=0.15)
        nn.init.uniform_(self.fixed.bias, 0, 6.28)
        self.fixed.requires_grad_(False)

    def forward(self, rows: torch.Tensor) -> torch.Tensor:
        return self.head(self.fixed(rows).cos())


@healthy(at_least=0.9)
def cosines_drawn_once(watch: Watch, *, seed: int) -> float:
    """Random Fourier features are frozen on purpose, and only the head is given to the optimizer."""
    data = datasets.breast_cancer(seed)
    model = Waves(30, 2)
    optimizer = torch.optim.Adam(model.head.parameters(), lr=5e-3, weight_decay=1e-3)
    fit(watch, model, optimizer, data, steps=200, batch_size=32)
    return accuracy(model, data)


@healthy(at_least=0.25)
def quantiles_of_noisy_patients(watch: Watch, *, seed: int) -> float:
    """Three quantiles by a pinball loss, on data of which half is noise; the median is judged."""
    data = datasets.diabetes(seed)
    model = nn.Sequential(nn.Linear(10, 16), nn.SiLU(), nn.Linear(16, 3))
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3, weight_decay=0.05)
    session = watch(model, optimizer)
    shares = torch.tensor([0.1, 0.5, 0.9])
    for rows, targets in data.batches(32, 200):
        outputs = model(rows)
        errors = targets - outputs
        loss = torch.maximum(shares * errors, (shares - 1) * errors).mean()
        optimizer.zero_grad()
        loss.backward()
        session.step(loss, inputs=rows, outputs=outputs, targets=targets)
        optimizer.step()
    return samples.explained(predicted(model, data.test_inputs)[:, 1:2], data.test_targets)


@healthy(at_least=0.35)
def gaps_of_digits_filled_in(watch: Watch, *, seed: int) -> float:
    """Three of five pixels are hidden, and the loss is of these alone, as in masked autoencoders."""
    data = scaled_digits(seed)
    model = nn.Sequential(nn.Linear(128, 128), nn.GELU(), nn.Linear(128, 64))
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    session = watch(model, optimizer)

    def hidden(pixels: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        mask = (torch.rand_like(pixels) < 0.6).float()
        return torch.cat([pixels * (1 - mask), mask], 1), mask

    for pixels, _ in data.batches(64, 250):
        seen, mask = hidden(pixels)
        outputs = model(seen)
        loss = ((outputs - pixels).square() * mask).sum() / mask.sum()
        optimizer.zero_grad()
        loss.backward()
        session.step(loss, inputs=seen, outputs=outputs, targets=pixels)
        optimizer.step()
    seen, mask = hidden(data.test_inputs)
    errors = (predicted(model, seen) - data.test_inputs).square() * mask
    return 1 - (errors.sum() / (data.test_inputs.square() * mask).sum()).item()


@healthy(at_least=0.9)
def four_wines_at_a_time(watch: Watch, *, seed: int) -> float:
    """Batches of four with GroupNorm and a small rate of SGD: a loss that jumps."""
    data = datasets.wine(seed)
    model = nn.Sequential(nn.Linear(13, 24), nn.GroupNorm(4, 24), nn.ReLU(), nn.Linear(24, 3))
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-2, momentum=0.9, nesterov=True)
    fit(watch, model, optimizer, data, steps=250, batch_size=4)
    return accuracy(model, data)


@healthy(at_least=0.85)
def a_smoothed_copy_is_kept(watch: Watch, *, seed: int) -> float:
    """A mean of weights over steps is what is used, and the trained model has a high rate."""
    data = forecasts(seed)
    model = nn.Sequential(nn.Flatten(), nn.Linear(24, 48), nn.ReLU(), nn.Linear(48, 4))
    kept = copy.deepcopy(model).requires_grad_(False)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.8)
    session = watch(model, optimizer)
    for series, later in data.batches(32, 250):
        optimizer.zero_grad()
        outputs = model(series)
        loss = functional.huber_loss(outputs, later)
        loss.backward()
        session.step(loss, inputs=series, outputs=outputs, targets=later)
        optimizer.step()
        with torch.no_grad():
            for old, new in zip(kept.parameters(), model.parameters(), strict=True):
                old.lerp_(new, 0.05)
    return explained(kept, data)


@healthy(at_least=0.55)
def lines_mixed_with_each_other(watch: Watch, *, seed: int) -> float:
    """Mixup of lines and smoothed labels in one cycle of the rate: the loss stays far above 0."""
    data = files(seed)
    model = nn.Sequential(nn.Linear(96, 64), nn.ReLU(), nn.Dropout(0.2), nn.Linear(64, 6))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    cycle = torch.optim.lr_scheduler.OneCycleLR(optimizer, max_lr=1e-2, total_steps=250)
    session = watch(model, optimizer)
    for rows, labels in data.batches(48, 250):
        share, other = torch.distributions.Beta(0.4, 0.4).sample(), torch.randperm(len(rows))
        mixed = share * rows + (1 - share) * rows[other]
        soft = share * functional.one_hot(labels, 6) + (1 - share) * functional.one_hot(labels[other], 6)
        outputs = model(mixed)
        loss = functional.cross_entropy(outputs, soft, label_smoothing=0.1)
        optimizer.zero_grad()
        loss.backward()
        session.step(loss, inputs=mixed, outputs=outputs, targets=soft)
        optimizer.step()
        cycle.step()
    return accuracy(model, data)
