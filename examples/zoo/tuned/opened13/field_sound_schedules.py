"""Sound trainings with an unusual course: restarts, one cycle, resumption, unfreezing, rates per layer."""

import io

import torch
from torch import nn
from torch.nn import functional
from torch.utils.data import DataLoader

from examples.zoo import samples
from examples.zoo.cases import Watch, healthy
from examples.zoo.tuned.opened13.field_tools import judged, springs


@healthy(at_least=0.9)
def restarts_every_sixty_steps(watch: Watch, *, seed: int) -> float:
    """Warm restarts raise the rate from zero to 0.1 again, and the loss with it, three times."""
    train, test = samples.numerals(seed)
    model = nn.Sequential(
        nn.Conv2d(1, 12, 3), nn.ReLU(), nn.Conv2d(12, 12, 3), nn.ReLU(), nn.Flatten(), nn.Linear(192, 10)
    )
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    scheduler = torch.optim.lr_scheduler.CosineAnnealingWarmRestarts(optimizer, T_0=60)
    session = watch(model, optimizer)
    step = 0
    while step < 240:
        for images, labels in DataLoader(train, batch_size=42, shuffle=True):
            if step == 240:
                break
            logits = model(images)
            loss = functional.cross_entropy(logits, labels)
            optimizer.zero_grad()
            loss.backward()
            session.step(loss, inputs=images, outputs=logits, targets=labels)
            optimizer.step()
            scheduler.step()
            step += 1
    return judged(model, test)


@healthy(at_least=0.95)
def one_cycle_up_to_a_high_rate(watch: Watch, *, seed: int) -> float:
    """One cycle takes the rate up to 0.5 and down to almost nothing, for a net with batch norm."""
    train, test = samples.numerals(seed)
    model = nn.Sequential(
        nn.Conv2d(1, 16, 3), nn.BatchNorm2d(16), nn.ReLU(), nn.Conv2d(16, 16, 3), nn.BatchNorm2d(16), nn.ReLU(),
        nn.AdaptiveAvgPool2d(2), nn.Flatten(), nn.Linear(64, 10),
    )  # fmt: skip
    optimizer = torch.optim.SGD(model.parameters(), lr=0.02, momentum=0.9, weight_decay=1e-4)
    loader = DataLoader(train, batch_size=64, shuffle=True)
    scheduler = torch.optim.lr_scheduler.OneCycleLR(optimizer, 0.5, total_steps=9 * len(loader))
    session = watch(model, optimizer)
    for _ in range(9):
        model.train()
        for images, labels in loader:
            optimizer.zero_grad()
            logits = model(images)
            loss = functional.cross_entropy(logits, labels)
            loss.backward()
            session.step(loss, inputs=images, outputs=logits, targets=labels)
            optimizer.step()
            scheduler.step()
    return judged(model, test)


@healthy(at_least=0.95)
def resumed_with_its_optimizer(watch: Watch, *, seed: int) -> float:
    """Ten epochs were trained before; model, optimizer and schedule come back from a checkpoint and train on."""
    train, test = samples.standardised(springs(seed), 0, 1)

    def built() -> tuple[nn.Module, torch.optim.Optimizer, torch.optim.lr_scheduler.LRScheduler]:
        model = nn.Sequential(nn.Linear(4, 48), nn.Mish(), nn.Linear(48, 48), nn.Mish(), nn.Linear(48, 1))
        optimizer = torch.optim.AdamW(model.parameters(), lr=5e-3)
        return model, optimizer, torch.optim.lr_scheduler.StepLR(optimizer, 6, 0.5)

    checkpoint = io.BytesIO()
    model, optimizer, scheduler = built()
    for _ in range(10):
        for rows, places in DataLoader(train, batch_size=50, shuffle=True):
            optimizer.zero_grad()
            functional.mse_loss(model(rows), places).backward()
            optimizer.step()
        scheduler.step()
    torch.save([part.state_dict() for part in (model, optimizer, scheduler)], checkpoint)

    checkpoint.seek(0)
    model, optimizer, scheduler = built()
    states = torch.load(checkpoint)
    model.load_state_dict(states[0])
    optimizer.load_state_dict(states[1])
    scheduler.load_state_dict(states[2])
    session = watch(model, optimizer)
    for _ in range(10):
        for rows, places in DataLoader(train, batch_size=50, shuffle=True):
            optimizer.zero_grad()
            outputs = model(rows)
            loss = functional.mse_loss(outputs, places)
            loss.backward()
            session.step(loss, inputs=rows, outputs=outputs, targets=places)
            optimizer.step()
        scheduler.step()
    return judged(model, test, samples.explained)


@healthy(at_least=0.9)
def a_body_that_thaws_after_the_head(watch: Watch, *, seed: int) -> float:
    """A body that tells odd from even digits is frozen while a new head learns ten classes, and then tuned with it."""
    train, test = samples.numerals(seed)
    body = nn.Sequential(nn.Conv2d(1, 16, 3), nn.ReLU(), nn.Conv2d(16, 16, 3), nn.ReLU(), nn.Flatten())
    parity = nn.Sequential(body, nn.Linear(256, 2))
    before = torch.optim.Adam(parity.parameters(), lr=2e-3)
    for _ in range(4):
        for images, labels in DataLoader(train, batch_size=50, shuffle=True):
            before.zero_grad()
            functional.cross_entropy(parity(images), labels % 2).backward()
            before.step()

    model = nn.Sequential(body, nn.Linear(256, 10))
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)
    body.requires_grad_(False)
    session = watch(model, optimizer)
    for epoch in range(8):
        if epoch == 4:
            body.requires_grad_(True)
        for images, labels in DataLoader(train, batch_size=50, shuffle=True):
            optimizer.zero_grad()
            logits = model(images)
            loss = functional.cross_entropy(logits, labels)
            loss.backward()
            session.step(loss, inputs=images, outputs=logits, targets=labels)
            optimizer.step()
    return judged(model, test)


@healthy(at_least=0.9)
def rates_that_fall_from_layer_to_layer(watch: Watch, *, seed: int) -> float:
    """A trained net is tuned on negatives of its digits; each layer's rate is half of the next one's."""
    train, test = samples.numerals(seed)
    model = nn.Sequential(
        nn.Flatten(), nn.Linear(64, 64), nn.GELU(), nn.Linear(64, 64), nn.GELU(), nn.Linear(64, 64), nn.GELU(),
        nn.Linear(64, 10),
    )  # fmt: skip
    before = torch.optim.Adam(model.parameters(), lr=2e-3)
    for _ in range(8):
        for images, labels in DataLoader(train, batch_size=50, shuffle=True):
            before.zero_grad()
            functional.cross_entropy(model(images), labels).backward()
            before.step()

    layers = [layer for layer in model if isinstance(layer, nn.Linear)]
    groups = [{"params": layer.parameters(), "lr": 8e-3 / 2**depth} for depth, layer in enumerate(reversed(layers))]
    optimizer = torch.optim.AdamW(groups)
    session = watch(model, optimizer)
    for _ in range(10):
        for images, labels in DataLoader(train, batch_size=50, shuffle=True):
            optimizer.zero_grad()
            logits = model(-images)
            loss = functional.cross_entropy(logits, labels)
            loss.backward()
            session.step(loss, inputs=-images, outputs=logits, targets=labels)
            optimizer.step()
    model.eval()
    with torch.no_grad():
        return samples.accuracy(model(-test.tensors[0]), test.tensors[1])
