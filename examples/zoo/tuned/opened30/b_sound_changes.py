"""More sound trainings that changed and look odd: other batches, labels, data and rewards."""

import torch
from torch import nn
from torch.nn import functional

from examples.zoo import datasets, samples
from examples.zoo.cases import Watch, healthy
from examples.zoo.loops import accuracy, predicted, r_squared
from examples.zoo.tuned.opened30.b_stock import customers, hums, listener, rivers


@healthy(at_least=0.85)
def batches_that_grow_instead_of_a_rate_that_falls(watch: Watch, *, seed: int) -> float:
    """Batches of 8 become 32, 128 and 512, at a constant rate: the loss gets calmer, and epochs have fewer steps."""
    data = datasets.digits(seed, images=True)
    model = nn.Sequential(
        nn.Conv2d(1, 16, 3, padding=1),
        nn.GroupNorm(4, 16),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Linear(256, 10),
    )
    optimizer = torch.optim.SGD(model.parameters(), lr=0.02, momentum=0.9, nesterov=True)
    session = watch(model, optimizer)
    for size, steps in ((8, 160), (32, 80), (128, 30), (512, 15)):
        for pictures, labels in data.batches(size, steps):
            logits = model(pictures)
            loss = functional.cross_entropy(logits, labels)
            optimizer.zero_grad()
            loss.backward()
            session.step(loss, inputs=pictures, outputs=logits, targets=labels)
            optimizer.step()
    return accuracy(model, data)


@healthy(at_least=0.85)
def three_in_ten_labels_are_wrong(watch: Watch, *, seed: int) -> float:
    """Cheap annotators got 30 of 100 labels wrong: the loss stays high, and held-out labels, all right, are met."""
    data = hums(seed, count=1600)
    wrong = torch.rand(len(data.targets)) < 0.3
    data.targets[wrong] = torch.randint(4, (int(wrong.sum()),))
    model = listener()
    optimizer = torch.optim.AdamW(model.parameters(), lr=4e-3, weight_decay=0.05)
    scheduler = torch.optim.lr_scheduler.OneCycleLR(optimizer, 4e-3, total_steps=200)
    session = watch(model, optimizer)
    for windows, pitches in data.batches(48, 200):
        logits = model(windows)
        loss = functional.cross_entropy(logits, pitches)
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        session.step(loss, inputs=windows, outputs=logits, targets=pitches)
        optimizer.step()
        scheduler.step()
    return accuracy(model, data)


@healthy(at_least=0.8)
def focal_loss_for_few_who_leave(watch: Watch, *, seed: int) -> float:
    """One of ten leaves; a focal loss with a weight makes its own numbers small. Quality: the mean of both recalls."""
    data = customers(seed, count=2400, share=0.1)
    model = nn.Sequential(nn.Linear(12, 48), nn.ReLU(), nn.Dropout(0.1), nn.Linear(48, 48), nn.ReLU(), nn.Linear(48, 1))
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3, weight_decay=0.05)
    session = watch(model, optimizer)
    for rows, leaves in data.batches(64, 250):
        logits = model(rows).squeeze(1)
        wanted = leaves.float()
        entropy = functional.binary_cross_entropy_with_logits(logits, wanted, reduction="none")
        loss = ((0.9 * wanted + 0.1 * (1 - wanted)) * (1 - (-entropy).exp()) ** 2 * entropy).mean()
        optimizer.zero_grad()
        loss.backward()
        session.step(loss, inputs=rows, outputs=logits, targets=wanted)
        optimizer.step()
    right = (predicted(model, data.test_inputs).squeeze(1) > 0) == (data.test_targets > 0)
    return (right[data.test_targets == 1].float().mean() + right[data.test_targets == 0].float().mean()).item() / 2


@healthy(at_least=0.85)
def a_chooser_of_pitches_by_reward(watch: Watch, *, seed: int) -> float:
    """Labels became rewards: REINFORCE with a baseline and an entropy bonus, whose loss stays around 0."""
    data = hums(seed, noise=0.4)
    model = listener()
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
    session = watch(model, optimizer)
    baseline = 0.25
    for windows, pitches in data.batches(64, 220):
        policy = torch.distributions.Categorical(logits=model(windows))
        chosen = policy.sample()
        rewards = (chosen == pitches).float()
        loss = -((rewards - baseline) * policy.log_prob(chosen)).mean() - 0.01 * policy.entropy().mean()
        baseline = 0.9 * baseline + 0.1 * rewards.mean().item()
        optimizer.zero_grad()
        loss.backward()
        session.step(loss, inputs=windows, outputs=policy.logits)
        optimizer.step()
    return accuracy(model, data)


@healthy(at_least=0.85)
def a_river_by_the_second_order(watch: Watch, *, seed: int) -> float:
    """Adam gave way to L-BFGS with a line search on all rows: 60 steps of one and the same batch, as it is meant."""
    data = rivers(seed)
    model = nn.Sequential(nn.Flatten(), nn.Linear(40, 16), nn.Tanh(), nn.Linear(16, 1))
    optimizer = torch.optim.LBFGS(model.parameters(), lr=1, max_iter=4, line_search_fn="strong_wolfe")
    session = watch(model, optimizer)

    def closure() -> torch.Tensor:
        optimizer.zero_grad()
        penalty = sum(weight.square().sum() for weight in model.parameters())
        loss = functional.mse_loss(model(data.inputs), data.targets) + 1e-4 * penalty
        loss.backward()
        return loss

    for _ in range(60):
        loss = closure()
        session.step(loss, inputs=data.inputs, outputs=model(data.inputs).detach(), targets=data.targets)
        optimizer.step(closure)
    return r_squared(model, data)


@healthy(at_least=0.5)
def weights_averaged_while_a_rate_stays_high(watch: Watch, *, seed: int) -> float:
    """A reader of names keeps a high rate for averaged weights (SWA), and the average is what is judged."""
    train, (names, scripts) = (part.tensors for part in samples.names(seed))

    class Reader(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.letters = nn.Embedding(samples.LETTERS, 32, padding_idx=0)
            self.conv = nn.Conv1d(32, 48, 4)
            self.head = nn.Linear(48, len(samples.SCRIPTS))

        def forward(self, batch: torch.Tensor) -> torch.Tensor:
            return self.head(functional.relu(self.conv(self.letters(batch).transpose(1, 2))).amax(2))

    model = Reader()
    averaged = torch.optim.swa_utils.AveragedModel(model)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9, weight_decay=1e-3)
    session = watch(model, optimizer)
    for step in range(240):
        rows = torch.randint(len(train[0]), (32,))
        logits = model(train[0][rows])
        loss = functional.cross_entropy(logits, train[1][rows])
        optimizer.zero_grad()
        loss.backward()
        session.step(loss, inputs=train[0][rows], outputs=logits, targets=train[1][rows])
        optimizer.step()
        if step >= 150 and step % 5 == 0:
            averaged.update_parameters(model)
    with torch.no_grad():
        return samples.accuracy(averaged(names), scripts)
