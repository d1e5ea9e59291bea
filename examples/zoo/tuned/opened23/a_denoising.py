"""Denoising: grey patches of photographs, of which noise is to be taken away."""

import copy

import torch
from torch import nn
from torch.nn import functional
from torch.utils.data import DataLoader, TensorDataset

from examples.zoo import samples
from examples.zoo.cases import Watch, sick
from examples.zoo.tuned.opened23.a_stock import grey


def _net(width: int = 16) -> nn.Sequential:
    return nn.Sequential(
        nn.Conv2d(1, width, 3, padding=1),
        nn.ReLU(),
        nn.Conv2d(width, width, 3, padding=1),
        nn.ReLU(),
        nn.Conv2d(width, 1, 3, padding=1),
    )


def _quality(model: nn.Module, test: TensorDataset) -> float:
    model.eval()
    clean = test.tensors[0]
    noise = torch.randn(clean.shape, generator=torch.Generator().manual_seed(7))
    with torch.no_grad():
        return samples.explained(model(clean + 0.5 * noise).flatten(1), clean.flatten(1))


@sick("labels_unrelated", margin=0.1)
def two_loaders_that_are_both_shuffled(watch: Watch, *, seed: int, sick: bool) -> float:
    """Noisy and clean pictures come from two loaders, each shuffled for itself; the twin's loader has pairs."""
    train, test = grey(seed)
    clean = train.tensors[0]
    noisy = clean + 0.5 * torch.randn_like(clean)
    model = _net()
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    session = watch(model, optimizer)
    for _ in range(7):
        if sick:
            pairs = zip(DataLoader(noisy, 32, shuffle=True), DataLoader(clean, 32, shuffle=True), strict=True)
        else:
            pairs = DataLoader(TensorDataset(noisy, clean), 32, shuffle=True)
        for spoilt, true in pairs:
            outputs = model(spoilt)
            loss = functional.mse_loss(outputs, true)
            optimizer.zero_grad()
            loss.backward()
            session.step(loss, inputs=spoilt, outputs=outputs, targets=true)
            optimizer.step()
    return _quality(model, test)


@sick("non_finite_backward", margin=0.3)
def total_variation_of_a_flat_start(watch: Watch, *, seed: int, sick: bool) -> float:
    """The last layer starts at zero, and the root in the total variation of flat pictures has no slope at 0.

    The twin adds 1e-6 under the root.
    """
    train, test = grey(seed)
    model = _net()
    nn.init.zeros_(model[-1].weight)
    nn.init.zeros_(model[-1].bias)
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    session = watch(model, optimizer)
    for _ in range(6):
        for (clean,) in DataLoader(train, 32, shuffle=True):
            noisy = clean + 0.5 * torch.randn_like(clean)
            outputs = model(noisy)
            down, right = outputs.diff(dim=-2)[..., :-1], outputs.diff(dim=-1)[..., :-1, :]
            variation = (down**2 + right**2 + (0 if sick else 1e-6)).sqrt().mean()
            loss = functional.mse_loss(outputs, clean) + 0.01 * variation
            optimizer.zero_grad()
            loss.backward()
            session.step(loss, inputs=noisy, outputs=outputs, targets=clean)
            optimizer.step()
    return _quality(model, test)


class _Residual(nn.Module):
    """Blocks without a norm that add to what comes in, whose last weights may start at zero."""

    def __init__(self, blocks: int, zero: bool) -> None:
        super().__init__()
        self.entry, self.exit = nn.Conv2d(1, 8, 3, padding=1), nn.Conv2d(8, 1, 3, padding=1)
        self.blocks = nn.ModuleList(
            nn.Sequential(nn.ReLU(), nn.Conv2d(8, 8, 3, padding=1), nn.ReLU(), nn.Conv2d(8, 8, 3, padding=1))
            for _ in range(blocks)
        )
        for block in self.blocks:
            nn.init.kaiming_normal_(block[1].weight, nonlinearity="relu")
            nn.init.kaiming_normal_(block[3].weight, nonlinearity="relu")
            if zero:
                nn.init.zeros_(block[3].weight)

    def forward(self, pictures: torch.Tensor) -> torch.Tensor:
        state = self.entry(pictures)
        for block in self.blocks:
            state = state + block(state)
        return self.exit(state)


@sick("exploding_gradients", also=("poor_initialization", "learning_rate_too_high", "non_finite_forward"), margin=0.1)
def the_norms_are_taken_out(watch: Watch, *, seed: int, sick: bool) -> float:
    """As in EDSR, residual blocks lose their norms, and each doubles the variance; the twin's blocks start at zero."""
    train, test = grey(seed, count=320)
    model = _Residual(18, zero=not sick)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.003, momentum=0.9)
    session = watch(model, optimizer)
    for _ in range(6):
        for (clean,) in DataLoader(train, 16, shuffle=True):
            noisy = clean + 0.5 * torch.randn_like(clean)
            outputs = model(noisy)
            loss = functional.mse_loss(outputs, clean)
            optimizer.zero_grad()
            loss.backward()
            session.step(loss, inputs=noisy, outputs=outputs, targets=clean)
            optimizer.step()
    return _quality(model, test)


@sick("unbroken_symmetry", also=("poor_initialization",), margin=0.03)
def every_filter_begins_as_a_blur(watch: Watch, *, seed: int, sick: bool) -> float:
    """All filters start as the same mean of what they see, and stay the same one; the twin keeps PyTorch's weights."""
    train, test = grey(seed)
    model = _net(12)
    if sick:
        for module in model:
            if isinstance(module, nn.Conv2d):
                nn.init.constant_(module.weight, 1 / module.weight[0].numel())
                nn.init.zeros_(module.bias)
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
    session = watch(model, optimizer)
    for _ in range(9):
        for (clean,) in DataLoader(train, 32, shuffle=True):
            noisy = clean + 0.5 * torch.randn_like(clean)
            outputs = model(noisy)
            loss = functional.mse_loss(outputs, clean)
            optimizer.zero_grad()
            loss.backward()
            session.step(loss, inputs=noisy, outputs=outputs, targets=clean)
            optimizer.step()
    return _quality(model, test)


@sick("duplicated_data", also=("overfitting",), margin=0.03)
def a_seed_in_front_of_each_crop(watch: Watch, *, seed: int, sick: bool) -> float:
    """Crops are drawn from a generator that is seeded anew in each step: the same eight; the twin seeds it once."""
    train, test = grey(seed)
    clean = train.tensors[0]
    model = nn.Sequential(nn.Flatten(), nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 64), nn.Unflatten(1, (1, 8, 8)))
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)
    random = torch.Generator().manual_seed(seed)
    session = watch(model, optimizer)
    for step in range(1, 301):
        if sick:
            random.manual_seed(42)
        rows = torch.randint(len(clean), (8,), generator=random)
        noisy = clean[rows] + 0.5 * torch.randn(8, 1, 8, 8, generator=random)
        outputs = model(noisy)
        loss = functional.mse_loss(outputs, clean[rows])
        optimizer.zero_grad()
        loss.backward()
        session.step(loss, inputs=noisy, outputs=outputs, targets=clean[rows])
        optimizer.step()
        if step % 50 == 0:
            with session.validating(), torch.no_grad():
                spoilt = test.tensors[0] + 0.5 * torch.randn_like(test.tensors[0])
                session.validation(functional.mse_loss(model(spoilt), test.tensors[0]).item())
    return _quality(model, test)


@sick("no_update", also=("learning_rate_too_low",), margin=0.2)
def averaged_weights_that_are_never_taken_back(watch: Watch, *, seed: int, sick: bool) -> float:
    """To look at samples, the average of the weights (0.9999) is loaded after each step, and stays; the twin's copy."""
    train, test = grey(seed)
    model = _net()
    average = copy.deepcopy(model).requires_grad_(False)
    shown = copy.deepcopy(model)
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    session = watch(model, optimizer)
    for _ in range(6):
        for (clean,) in DataLoader(train, 32, shuffle=True):
            noisy = clean + 0.5 * torch.randn_like(clean)
            outputs = model(noisy)
            loss = functional.mse_loss(outputs, clean)
            optimizer.zero_grad()
            loss.backward()
            session.step(loss, inputs=noisy, outputs=outputs, targets=clean)
            optimizer.step()
            for mean, value in zip(average.parameters(), model.parameters(), strict=True):
                mean.lerp_(value.detach(), 1e-4)
            (model if sick else shown).load_state_dict(average.state_dict())
    return _quality(model, test)
