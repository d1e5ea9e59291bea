"""What stands between ``backward`` and the next batch: clipping, accumulation, warm-up, sampling, stopping, keeping."""

import math

import torch
from torch import nn
from torch.nn import functional
from torch.utils.data import DataLoader, TensorDataset, WeightedRandomSampler

from examples.zoo import samples
from examples.zoo.cases import Watch, healthy, sick
from examples.zoo.samples import standardised


def _score(model: nn.Module, test: TensorDataset) -> float:
    with torch.no_grad():
        outputs = model.eval()(test.tensors[0])
    if outputs.shape == test.tensors[1].shape:
        return samples.explained(outputs, test.tensors[1])
    return samples.accuracy(outputs, test.tensors[1])


def _classifier(hidden: int = 32) -> nn.Sequential:
    return nn.Sequential(nn.Flatten(), nn.Linear(64, hidden), nn.GELU(), nn.Linear(hidden, 10))


@sick("clipping_too_strong", also=("learning_rate_too_low",))
def clipped_each_tensor_for_itself(watch: Watch, *, seed: int, sick: bool) -> float:
    """Each gradient is clipped to a norm of 5e-4, a limit for the step copied as one for the gradient."""
    train, test = samples.numerals(seed)
    model = _classifier()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    session = watch(model, optimizer)
    for _ in range(5):
        for images, labels in DataLoader(train, batch_size=40, shuffle=True):
            optimizer.zero_grad()
            logits = model(images)
            loss = functional.cross_entropy(logits, labels)
            loss.backward()
            for parameter in model.parameters():
                nn.utils.clip_grad_norm_(parameter, 5e-4 if sick else 5.0)
            session.step(loss, inputs=images, outputs=logits, targets=labels)
            optimizer.step()
    return _score(model, test)


@sick("clipping_ineffective", also=("exploding_gradients", "learning_rate_too_high", "inputs_not_normalized"))
def clipped_before_backward(watch: Watch, *, seed: int, sick: bool) -> float:
    """Clipping stands before ``backward``, where all gradients are None; a heavy-tailed target needs it."""
    train, test = standardised(samples.tumours(seed), 0)
    areas = train.tensors[1][:, 3:4] / 100, test.tensors[1][:, 3:4] / 100
    model = nn.Sequential(nn.Linear(10, 32), nn.ReLU(), nn.Linear(32, 32), nn.ReLU(), nn.Linear(32, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.03, momentum=0.9)
    session = watch(model, optimizer)
    for _ in range(18):
        for rows, area in DataLoader(TensorDataset(train.tensors[0], areas[0]), batch_size=32, shuffle=True):
            optimizer.zero_grad()
            outputs = model(rows)
            loss = functional.mse_loss(outputs, area)
            if sick:
                nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            loss.backward()
            if not sick:
                nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            session.step(loss, inputs=rows, outputs=outputs, targets=area)
            optimizer.step()
    return _score(model, TensorDataset(test.tensors[0], areas[1]))


@sick("accumulation_not_averaged", also=("learning_rate_too_high",))
def twelve_small_batches_without_a_mean(watch: Watch, *, seed: int, sick: bool) -> float:
    """Twelve micro-batches are accumulated; nobody divides by twelve."""
    pair = standardised(samples.tumours(seed), 0, 1)
    train, test = pair
    every = 12
    model = nn.Sequential(nn.Linear(10, 40), nn.ELU(), nn.Linear(40, 40), nn.ELU(), nn.Linear(40, 10))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.15, momentum=0.9)
    session = watch(model, optimizer)
    seen = 0
    for _ in range(24):
        for rows, targets in DataLoader(train, batch_size=8, shuffle=True, drop_last=True):
            outputs = model(rows)
            loss = functional.mse_loss(outputs, targets)
            (loss if sick else loss / every).backward()
            seen += 1
            if seen % every == 0:
                session.step(loss, inputs=rows, outputs=outputs, targets=targets)
                optimizer.step()
                optimizer.zero_grad()
    return _score(model, test)


@sick("class_imbalance", margin=0.05)
def the_other_photograph_is_rare(watch: Watch, *, seed: int, sick: bool) -> float:
    """Three scenes in a hundred are of the other photograph; the twin samples both alike. Quality: the mean recall."""
    train, test = samples.scenes(seed, count=2400)
    rare = (train.tensors[1] == 1).nonzero()[:, 0]
    chosen = torch.cat([(train.tensors[1] == 0).nonzero()[:, 0], rare[:26]])
    rows = TensorDataset(train.tensors[0][chosen], train.tensors[1][chosen])
    model = nn.Sequential(nn.AvgPool2d(4), nn.Flatten(), nn.Linear(12, 16), nn.ReLU(), nn.Linear(16, 2))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.02, momentum=0.9)
    weights = 1 / rows.tensors[1].bincount()[rows.tensors[1]].double()
    balanced = DataLoader(rows, batch_size=32, sampler=WeightedRandomSampler(weights.tolist(), len(rows)))
    loader = DataLoader(rows, batch_size=32, shuffle=True) if sick else balanced
    session = watch(model, optimizer)
    for _ in range(7):
        for images, labels in loader:
            logits = model(images)
            loss = functional.cross_entropy(logits, labels)
            optimizer.zero_grad()
            loss.backward()
            session.step(loss, inputs=images, outputs=logits, targets=labels)
            optimizer.step()
    parts = [test.tensors[1] == label for label in (0, 1)]
    kept = [TensorDataset(test.tensors[0][part], test.tensors[1][part]) for part in parts]
    return sum(_score(model, one) for one in kept) / 2


@sick("stopped_too_early", also=("learning_rate_too_low",))
def two_epochs_from_a_smoke_test(watch: Watch, *, seed: int, sick: bool) -> float:
    """The number of epochs is still that of a smoke test: 2 instead of 12."""
    train, test = samples.lines(seed)
    model = nn.Sequential(nn.LayerNorm(96), nn.Linear(96, 32), nn.ReLU(), nn.Linear(32, len(samples.FILES)))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.03, momentum=0.9)
    session = watch(model, optimizer)
    for _ in range(2 if sick else 12):
        for counts, labels in DataLoader(train, batch_size=32, shuffle=True):
            logits = model(counts)
            loss = functional.cross_entropy(logits, labels)
            optimizer.zero_grad()
            loss.backward()
            session.step(loss, inputs=counts, outputs=logits, targets=labels)
            optimizer.step()
    return _score(model, test)


@sick("memory_leak", margin=0.5)
def losses_summed_with_their_graphs(watch: Watch, *, seed: int, sick: bool) -> float:
    """The sum for the epoch's mean loss keeps the graph of every step; quality: 1 if it keeps none."""
    train, _ = samples.scenes(seed, count=3600)
    model = nn.Sequential(nn.Flatten(), nn.Linear(192, 600), nn.ReLU(), nn.Linear(600, 2))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
    session, total = watch(model, optimizer), torch.zeros(())
    for _ in range(5):
        for images, labels in DataLoader(train, batch_size=120, shuffle=True):
            logits = model(images.clone())
            loss = functional.cross_entropy(logits, labels)
            optimizer.zero_grad()
            loss.backward(retain_graph=sick)
            session.step(loss, inputs=images, outputs=logits, targets=labels)
            optimizer.step()
            total = total + (loss if sick else loss.detach())
    return float(not total.requires_grad)


@healthy(at_least=0.9)
def micro_batches_averaged(watch: Watch, *, seed: int) -> float:
    """Four micro-batches a step, each divided by four, with RMSprop."""
    train, test = samples.numerals(seed)
    model = _classifier(48)
    optimizer = torch.optim.RMSprop(model.parameters(), lr=2e-3, momentum=0.5)
    session = watch(model, optimizer)
    for _ in range(8):
        for number, (images, labels) in enumerate(DataLoader(train, batch_size=12, shuffle=True, drop_last=True), 1):
            logits = model(images)
            loss = functional.cross_entropy(logits, labels)
            (loss / 4).backward()
            if number % 4 == 0:
                session.step(loss, inputs=images, outputs=logits, targets=labels)
                optimizer.step()
                optimizer.zero_grad()
        optimizer.zero_grad()
    return _score(model, test)


@healthy(at_least=0.5)
def a_picture_from_its_coordinates(watch: Watch, *, seed: int) -> float:
    """Sines of coordinates to the grey of four digits side by side; the loss alone is told."""
    train, _ = samples.numerals(seed)
    strip = train.tensors[0][:4, 0].permute(1, 0, 2).reshape(8, 32)
    rows, columns = torch.meshgrid(torch.linspace(-1, 1, 8), torch.linspace(-1, 1, 32), indexing="ij")
    place = torch.stack([rows.flatten(), columns.flatten()], 1)
    waves = torch.randn(2, 24) * math.pi
    features = torch.cat([(place @ waves).sin(), (place @ waves).cos()], 1)
    greys = strip.reshape(-1, 1)
    model = nn.Sequential(nn.Linear(48, 64), nn.ReLU(), nn.Linear(64, 1))
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
    session = watch(model, optimizer)
    for _ in range(20):
        for chosen in torch.randperm(256).split(32):
            outputs = model(features[chosen])
            loss = functional.mse_loss(outputs, greys[chosen])
            optimizer.zero_grad()
            loss.backward()
            session.step(loss)
            optimizer.step()
    with torch.no_grad():
        return samples.explained(model(features), greys)
