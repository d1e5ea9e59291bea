"""Numbers that overflow, underflow or are cut off."""

import torch
from torch import nn
from torch.nn import functional

from examples.zoo import datasets, samples
from examples.zoo.cases import Watch, sick
from examples.zoo.loops import accuracy, fit, predicted
from examples.zoo.tuned.opened57.o_common import as_data, rows


@sick("non_finite_forward", margin=0.2)
def four_pieces_of_a_short_name(watch: Watch, *, seed: int, sick: bool) -> float:
    """Names are read in four pieces, and one of padding alone has a softmax of infinities. The twin masks with -1e9."""
    data = as_data(samples.names(seed))
    masked = float("-inf") if sick else -1e9

    class Pieces(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.letters = nn.Embedding(samples.LETTERS, 32, padding_idx=0)
            self.mix = nn.Conv1d(32, 48, 3, padding=1)
            self.score = nn.Linear(48, 1)
            self.head = nn.Linear(4 * 48, len(samples.SCRIPTS))

        def forward(self, names: torch.Tensor) -> torch.Tensor:
            values = self.mix(self.letters(names).transpose(1, 2)).relu().transpose(1, 2)
            scores = self.score(values).squeeze(2).masked_fill(names == 0, masked).view(-1, 4, 6)
            pooled = (scores.softmax(2).unsqueeze(3) * values.reshape(-1, 4, 6, 48)).sum(2)
            return self.head(pooled.flatten(1))

    model = Pieces()
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    fit(watch, model, optimizer, data, steps=150)
    return accuracy(model, data)


@sick("non_finite_backward", margin=0.2)
def distance_of_each_to_itself(watch: Watch, *, seed: int, sick: bool) -> float:
    """Distances within a batch are roots, and that of a digit to itself is 0. The twin adds a little below the root."""
    data = datasets.digits(seed)
    model = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 8))
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)
    session = watch(model, optimizer)
    for inputs, targets in data.batches(64, 200):
        places = model(inputs)
        squares = (places[:, None] - places[None]).square().sum(2)
        distances = (squares if sick else squares + 1e-6).sqrt()
        same = (targets[:, None] == targets[None]).float()
        loss = (same * distances.square() + (1 - same) * (2 - distances).relu().square()).mean()
        optimizer.zero_grad()
        loss.backward()
        session.step(loss, inputs=inputs, outputs=places)
        optimizer.step()
    known, asked = predicted(model, data.inputs), predicted(model, data.test_inputs)
    centres = torch.stack([known[data.targets == label].mean(0) for label in range(10)])
    return (torch.cdist(asked, centres).argmin(1) == data.test_targets).float().mean().item()


@sick("fp16_underflow", margin=0.2)
def evidence_divided_by_the_dataset(watch: Watch, *, seed: int, sick: bool) -> float:
    """A loss is divided by all values of the dataset, and half precision has no scaler. The twin has one."""
    data = datasets.digits(seed)
    model = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 10))
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3, eps=1e-12)
    scaler = torch.amp.GradScaler("cpu", enabled=not sick)
    session = watch(model, optimizer) if sick else watch(model, optimizer, scaler=scaler)
    for inputs, targets in data.batches(64, 150):
        with torch.autocast("cpu", torch.float16):
            outputs = model(inputs)
            loss = functional.cross_entropy(outputs, targets) / data.inputs.numel()
        optimizer.zero_grad()
        scaler.scale(loss).backward()
        session.step(loss, inputs=inputs, outputs=outputs, targets=targets)
        scaler.step(optimizer)
        scaler.update()
    return accuracy(model, data)


@sick("clipping_ineffective", margin=0.1)
def clipped_before_there_were_any(watch: Watch, *, seed: int, sick: bool) -> float:
    """A Poisson regression clips its gradients before ``backward`` has made them. The twin clips them after it."""
    data = as_data(samples.halves(seed))
    model = nn.Sequential(nn.Linear(32, 48), nn.ReLU(), nn.Linear(48, 32))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.3, momentum=0.9)
    session = watch(model, optimizer)
    for inputs, targets in data.batches(32, 300):
        counts = targets * 16
        outputs = model(inputs)
        loss = functional.poisson_nll_loss(outputs, counts)
        optimizer.zero_grad()
        if sick:
            nn.utils.clip_grad_norm_(model.parameters(), 0.25)
        loss.backward()
        if not sick:
            nn.utils.clip_grad_norm_(model.parameters(), 0.25)
        session.step(loss, inputs=inputs, outputs=outputs, targets=counts)
        optimizer.step()
    rates = predicted(model, data.test_inputs).exp()
    return samples.explained(rates, data.test_targets * 16)


@sick("clipping_too_strong", margin=0.1)
def a_denoiser_held_by_a_thousandth(watch: Watch, *, seed: int, sick: bool) -> float:
    """A diffusion model's gradients are cut to a norm of 0.001 while SGD trains it. The twin cuts them to 1."""
    data = rows(seed)

    class Denoiser(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layers = nn.Sequential(nn.Linear(17, 64), nn.SiLU(), nn.Linear(64, 64), nn.SiLU(), nn.Linear(64, 16))

        def forward(self, noisy: torch.Tensor) -> torch.Tensor:
            return self.layers(noisy)

    def spoilt(clean: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        time, noise = torch.rand(len(clean), 1), torch.randn_like(clean)
        kept = torch.cos(time * torch.pi / 2)
        return torch.cat([kept * clean + (1 - kept.square()).sqrt() * noise, 2 * time - 1], 1), noise

    model = Denoiser()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    session = watch(model, optimizer)
    for clean, _ in data.batches(64, 350):
        inputs, noise = spoilt(clean)
        outputs = model(inputs)
        loss = functional.mse_loss(outputs, noise)
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1e-3 if sick else 1.0)
        session.step(loss, inputs=inputs, outputs=outputs, targets=noise)
        optimizer.step()
    inputs, noise = spoilt(data.test_inputs)
    return samples.explained(predicted(model, inputs), noise)
