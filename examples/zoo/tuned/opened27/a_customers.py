"""More tables: customers, counts, small samples, and several tasks at once."""

import torch
from torch import nn
from torch.nn import functional
from torch.utils.data import DataLoader

from examples.zoo import datasets, samples
from examples.zoo.cases import Watch, sick
from examples.zoo.loops import accuracy


@sick("single_class_labels", margin=0.2)
def a_flag_compared_with_a_text(watch: Watch, *, seed: int, sick: bool) -> float:
    """A flag is read as the text "1.0" and compared with "1", so that nobody has it; the twin compares numbers."""
    data = datasets.breast_cancer(seed)
    texts = [str(float(label)) for label in data.targets.tolist()]
    flags = torch.tensor([int(text == "1") if sick else int(float(text) == 1) for text in texts])
    model = nn.Sequential(nn.Linear(30, 24), nn.ReLU(), nn.Dropout(0.2), nn.Linear(24, 2))
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3)
    session = watch(model, optimizer)
    data = datasets.Data(data.inputs, flags, data.test_inputs, data.test_targets)
    for rows, labels in data.batches(32, 120):
        logits = model(rows)
        loss = functional.cross_entropy(logits, labels)
        optimizer.zero_grad()
        loss.backward()
        session.step(loss, inputs=rows, outputs=logits, targets=labels)
        optimizer.step()
    return accuracy(model, data)


@sick("non_finite_forward", also=("non_finite_backward",), margin=0.3)
def the_logarithm_of_a_forecast(watch: Watch, *, seed: int, sick: bool) -> float:
    """A loss takes the logarithm of a linear layer, which is below 0 at times; the twin ends in a softplus."""
    random = torch.Generator().manual_seed(seed)
    rows = torch.randn(1200, 8, generator=random)
    rentals = torch.poisson(torch.exp(1.0 + 0.8 * rows[:, 0] - 0.6 * rows[:, 1].abs()), generator=random)
    train, test = samples.split(seed, rows, rentals[:, None] + 1)
    model = nn.Sequential(nn.Linear(8, 32), nn.ReLU(), nn.Linear(32, 1))
    if not sick:
        model.append(nn.Softplus())
    optimizer = torch.optim.Adam(model.parameters(), lr=0.02)
    session = watch(model, optimizer)
    for _ in range(10):
        for batch, counts in DataLoader(train, 64, shuffle=True):
            outputs = model(batch)
            loss = functional.mse_loss(torch.log(outputs), torch.log(counts))
            optimizer.zero_grad()
            loss.backward()
            session.step(loss, inputs=batch, outputs=outputs, targets=counts)
            optimizer.step()
    with torch.no_grad():
        return samples.explained(torch.log(model(test.tensors[0])), torch.log(test.tensors[1]))


@sick("overfitting", margin=0.1)
def a_wide_net_for_three_hundred_patients(watch: Watch, *, seed: int, sick: bool) -> float:
    """Two layers of 256 learn 331 patients by heart in 60 epochs; the twin has 16, a dropout and weight decay."""
    data = datasets.diabetes(seed)
    if sick:
        model = nn.Sequential(nn.Linear(10, 256), nn.ReLU(), nn.Linear(256, 256), nn.ReLU(), nn.Linear(256, 1))
    else:
        model = nn.Sequential(nn.Linear(10, 16), nn.ReLU(), nn.Dropout(0.2), nn.Linear(16, 1))
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3, weight_decay=0.0 if sick else 0.5)
    session = watch(model, optimizer)
    for epoch in range(60):
        model.train()
        for rows, progress in data.batches(64, 6):
            outputs = model(rows)
            loss = functional.mse_loss(outputs, progress)
            optimizer.zero_grad()
            loss.backward()
            session.step(loss, inputs=rows, outputs=outputs, targets=progress)
            optimizer.step()
        model.eval()
        with torch.no_grad():
            outputs = model(data.test_inputs)
        if epoch % 3 == 2:
            session.validation(functional.mse_loss(outputs, data.test_targets).item())
    return samples.explained(outputs, data.test_targets)


@sick("duplicated_data", also=("overfitting",), margin=0.05)
def always_the_first_batch(watch: Watch, *, seed: int, sick: bool) -> float:
    """Lines of code by their file: ``next(iter(loader))`` of a loader in order gives its first batch at each step.

    The twin goes on in the loader, and shuffles.
    """
    train, test = samples.standardised(samples.lines(seed), 0)
    loader = DataLoader(train, 64, shuffle=not sick)
    model = nn.Sequential(nn.Linear(96, 48), nn.ReLU(), nn.Dropout(0.3), nn.Linear(48, len(samples.FILES)))
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)
    session = watch(model, optimizer)
    batches = iter(loader)
    for _ in range(120):
        if sick:
            batches = iter(loader)
        drawn = next(batches, None)
        if drawn is None:
            batches = iter(loader)
            drawn = next(batches)
        counts, labels = drawn
        outputs = model(counts)
        loss = functional.cross_entropy(outputs, labels)
        optimizer.zero_grad()
        loss.backward()
        session.step(loss, inputs=counts, outputs=outputs, targets=labels)
        optimizer.step()
    model.eval()
    with torch.no_grad():
        return samples.accuracy(model(test.tensors[0]), test.tensors[1])


class Tasks(nn.Module):
    """A trunk of digits, with a head of the number, one of its parity, and one of the ink."""

    def __init__(self, unit: nn.Module) -> None:
        super().__init__()
        self.trunk = nn.Sequential(nn.Linear(64, 64), unit, nn.Linear(64, 64), unit)
        self.number, self.parity, self.ink = nn.Linear(64, 10), nn.Linear(64, 1), nn.Linear(64, 1)

    def forward(self, pixels: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        states = self.trunk(pixels)
        return self.number(states), self.parity(states)[:, 0], self.ink(states)[:, 0]


@sick("saturated_units", also=("poor_initialization", "learning_rate_too_low"), margin=0.05)
def three_tasks_on_a_trunk_of_randn(watch: Watch, *, seed: int, sick: bool) -> float:
    """A trunk of tanh for three tasks has weights of ``torch.randn``; the twin's are Xavier's. Quality: numbers."""
    data = datasets.digits(seed)
    mean, std = data.inputs.mean(), data.inputs.std()
    model = Tasks(nn.Tanh())
    for layer in (model.trunk[0], model.trunk[2]):
        nn.init.normal_(layer.weight) if sick else nn.init.xavier_normal_(layer.weight)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.02, momentum=0.9)
    session = watch(model, optimizer)
    for pixels, labels in data.batches(64, 200):
        pixels = (pixels - mean) / std
        number, parity, ink = model(pixels)
        loss = (
            functional.cross_entropy(number, labels)
            + functional.binary_cross_entropy_with_logits(parity, (labels % 2).float())
            + functional.mse_loss(ink, 4 * pixels.mean(1))
        )
        optimizer.zero_grad()
        loss.backward()
        session.step(loss, inputs=pixels, outputs=number, targets=labels)
        optimizer.step()
    with torch.no_grad():
        found = model((data.test_inputs - mean) / std)[0]
    return samples.accuracy(found, data.test_targets)
