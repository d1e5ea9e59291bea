"""Sound trainings whose losses look odd: summed, negative, huge, noisy, or near zero for most of a batch."""

import torch
from torch import nn
from torch.nn import functional
from torch.utils.data import DataLoader, TensorDataset

from examples.zoo import datasets, samples
from examples.zoo.cases import Watch, healthy
from examples.zoo.tuned.opened13.field_tools import judged, springs, throws


@healthy(at_least=0.9)
def a_sum_at_a_rate_for_sums(watch: Watch, *, seed: int) -> float:
    """The loss is a sum over the batch on purpose, and the rate of 0.002 is chosen for it."""
    train, test = samples.numerals(seed)
    model = nn.Sequential(nn.Flatten(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 10))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.002, momentum=0.9)
    session = watch(model, optimizer)
    for _ in range(8):
        for images, labels in DataLoader(train, batch_size=32, shuffle=True):
            logits = model(images)
            loss = functional.cross_entropy(logits, labels, reduction="sum")
            optimizer.zero_grad()
            loss.backward()
            session.step(loss, inputs=images, outputs=logits, targets=labels)
            optimizer.step()
    return judged(model, test)


class _Scaled(nn.Module):
    """Standardises its columns and puts out the unit of its targets, with constants of the training rows."""

    def __init__(self, train: TensorDataset) -> None:
        super().__init__()
        rows, targets = train.tensors
        self.mean, self.std = nn.Buffer(rows.mean(0)), nn.Buffer(rows.std(0))
        self.level, self.unit = nn.Buffer(targets.mean(0)), nn.Buffer(targets.std(0))
        self.body = nn.Sequential(nn.Linear(3, 48), nn.SiLU(), nn.Linear(48, 48), nn.SiLU(), nn.Linear(48, 1))

    def forward(self, rows: torch.Tensor) -> torch.Tensor:
        result: torch.Tensor = self.body((rows - self.mean) / self.std) * self.unit + self.level
        return result


@healthy(at_least=0.95)
def squared_millimetres(watch: Watch, *, seed: int) -> float:
    """Distances are in millimetres, so that the loss is in the millions; the model has scales of its own."""
    train, test = (TensorDataset(part.tensors[0], part.tensors[1] * 1000) for part in throws(seed))
    model = _Scaled(train)
    optimizer = torch.optim.Adam(model.parameters(), lr=4e-3)
    session = watch(model, optimizer)
    for _ in range(12):
        for rows, millimetres in DataLoader(train, batch_size=42, shuffle=True):
            outputs = model(rows)
            loss = functional.mse_loss(outputs, millimetres)
            optimizer.zero_grad()
            loss.backward()
            session.step(loss, inputs=rows, outputs=outputs, targets=millimetres)
            optimizer.step()
    return judged(model, test, samples.explained)


@healthy(at_least=0.9)
def a_likelihood_that_falls_below_zero(watch: Watch, *, seed: int) -> float:
    """A Gaussian's negative log-likelihood with a learnt variance becomes negative as the errors become small."""
    train, test = samples.standardised(springs(seed), 0, 1)
    model = nn.Sequential(nn.Linear(4, 64), nn.Tanh(), nn.Linear(64, 64), nn.Tanh(), nn.Linear(64, 2))
    optimizer = torch.optim.Adam(model.parameters(), lr=4e-3)
    session = watch(model, optimizer)
    for _ in range(18):
        for rows, places in DataLoader(train, batch_size=52, shuffle=True):
            mean, spread = model(rows).chunk(2, 1)
            loss = functional.gaussian_nll_loss(mean, places, functional.softplus(spread) + 1e-3)
            optimizer.zero_grad()
            loss.backward()
            session.step(loss, inputs=rows, outputs=mean, targets=places)
            optimizer.step()
    return judged(model, test, lambda found, places: samples.explained(found[:, :1], places))


@healthy(at_least=0.85)
def digits_that_are_mixed_in_pairs(watch: Watch, *, seed: int) -> float:
    """Mixup: each image is blended with another, and so are their labels, so that the loss stays near one."""
    train, test = samples.numerals(seed)
    model = nn.Sequential(
        nn.Conv2d(1, 16, 3, padding=1), nn.BatchNorm2d(16), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(256, 10)
    )
    optimizer = torch.optim.AdamW(model.parameters(), lr=4e-3)
    shares = torch.distributions.Beta(1.0, 1.0)
    session = watch(model, optimizer)
    for _ in range(8):
        model.train()
        for images, labels in DataLoader(train, batch_size=50, shuffle=True):
            share, other = float(shares.sample()), torch.randperm(len(images))
            blended = share * images + (1 - share) * images[other]
            one_hot = functional.one_hot(labels, 10).float()
            targets = share * one_hot + (1 - share) * one_hot[other]
            logits = model(blended)
            loss = functional.cross_entropy(logits, targets)
            optimizer.zero_grad()
            loss.backward()
            session.step(loss, inputs=blended, outputs=logits, targets=targets)
            optimizer.step()
    return judged(model, test)


@healthy(at_least=0.9)
def triplets_of_which_most_are_easy(watch: Watch, *, seed: int) -> float:
    """A triplet loss is zero for most triplets soon; quality: the share of digits whose nearest neighbour is right."""
    train, test = samples.numerals(seed)
    model = nn.Sequential(nn.Flatten(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 16))
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)
    session = watch(model, optimizer)
    images, labels = train.tensors
    rows_of = [(labels == label).nonzero()[:, 0] for label in range(10)]
    for _ in range(200):
        anchor = torch.randint(len(labels), (64,))
        alike = torch.stack([rows_of[labels[one]][torch.randint(len(rows_of[labels[one]]), ())] for one in anchor])
        other = torch.randint(len(labels), (64,))
        other = torch.where(labels[other] == labels[anchor], anchor, other)
        valid = other != anchor
        chosen = torch.cat([anchor[valid], alike[valid], other[valid]])
        codes = functional.normalize(model(images[chosen]), dim=1)
        first, same, different = codes.chunk(3)
        loss = functional.triplet_margin_loss(first, same, different, margin=0.3)
        optimizer.zero_grad()
        loss.backward()
        session.step(loss, inputs=images[chosen], outputs=codes)
        optimizer.step()
    model.eval()
    with torch.no_grad():
        known, asked = (functional.normalize(model(part.tensors[0]), dim=1) for part in (train, test))
    return (labels[(asked @ known.T).argmax(1)] == test.tensors[1]).float().mean().item()


class _Angles(nn.Module):
    """Cosines between a digit's code and ten directions."""

    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Sequential(nn.Flatten(), nn.Linear(64, 64), nn.PReLU(), nn.Linear(64, 32))
        self.directions = nn.Parameter(torch.randn(10, 32))

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        return functional.linear(functional.normalize(self.body(images)), functional.normalize(self.directions))


@healthy(at_least=0.9)
def cosines_with_a_margin_and_a_scale(watch: Watch, *, seed: int) -> float:
    """Cosines of the right class lose a margin, and all are multiplied by 16: the loss starts high and above log 10."""
    train, test = samples.numerals(seed)
    model = _Angles()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9, weight_decay=5e-4)
    session = watch(model, optimizer)
    for _ in range(8):
        for images, labels in DataLoader(train, batch_size=40, shuffle=True):
            cosines = model(images)
            logits = 16 * (cosines - 0.2 * functional.one_hot(labels, 10))
            loss = functional.cross_entropy(logits, labels)
            optimizer.zero_grad()
            loss.backward()
            session.step(loss, inputs=images, outputs=logits, targets=labels)
            optimizer.step()
    return judged(model, test)


@healthy(at_least=0.8)
def the_hardest_quarter_of_a_batch(watch: Watch, *, seed: int) -> float:
    """Only the sixteen largest of 64 errors are learnt from, so that the loss is larger than a mean would be."""
    train, test = samples.standardised(springs(seed), 0, 1)
    model = nn.Sequential(nn.Linear(4, 64), nn.SiLU(), nn.Linear(64, 64), nn.SiLU(), nn.Linear(64, 1))
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)
    session = watch(model, optimizer)
    for _ in range(20):
        for rows, places in DataLoader(train, batch_size=64, shuffle=True, drop_last=True):
            outputs = model(rows)
            errors = functional.smooth_l1_loss(outputs, places, reduction="none")[:, 0]
            loss = errors.topk(16).values.mean()
            optimizer.zero_grad()
            loss.backward()
            session.step(loss, inputs=rows, outputs=outputs, targets=places)
            optimizer.step()
    return judged(model, test, samples.explained)


@healthy(at_least=0.85)
def rare_defects_under_a_focal_loss(watch: Watch, *, seed: int) -> float:
    """A tenth are eights; the last bias starts at their log-odds, and a focal loss is small from its first step."""
    data = datasets.digits(seed)
    labels, test_labels = (data.targets == 8).float(), data.test_targets == 8
    model = nn.Sequential(nn.Linear(64, 48), nn.ReLU(), nn.Linear(48, 1))
    nn.init.constant_(model[2].get_parameter("bias"), -2.2)
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
    session = watch(model, optimizer)
    for _ in range(10):
        for pixels, defect in DataLoader(TensorDataset(data.inputs, labels), batch_size=64, shuffle=True):
            logits = model(pixels)[:, 0]
            errors = functional.binary_cross_entropy_with_logits(logits, defect, reduction="none")
            weights = torch.where(defect > 0.5, 0.75, 0.25) * (1 - (-errors).exp()).square()
            loss = (weights * errors).mean()
            optimizer.zero_grad()
            loss.backward()
            session.step(loss, inputs=pixels, outputs=logits, targets=defect)
            optimizer.step()
    with torch.no_grad():
        found = model(data.test_inputs)[:, 0] > 0
    recalls = (found[test_labels].float().mean(), (~found[~test_labels]).float().mean())
    return sum(recall.item() for recall in recalls) / 2
