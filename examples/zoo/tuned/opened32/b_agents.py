"""Agents, pairs, spectra and steps in mechanics of other kinds."""

import torch
from torch import nn
from torch.nn import functional

from examples.zoo import datasets, samples
from examples.zoo.cases import Watch, sick
from examples.zoo.datasets import Data
from examples.zoo.loops import accuracy, fit, held_out_loss
from examples.zoo.tuned.opened32.b_common import colours, explained, parted

SIDE = 5


def grid_moves() -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Returns places (25, 2) of a grid, where four moves lead (25, 4), and how many are needed to its corner (25,)."""
    places = torch.cartesian_prod(torch.arange(SIDE), torch.arange(SIDE))
    moves = torch.tensor([[0, 1], [1, 0], [0, -1], [-1, 0]])
    after = (places[:, None] + moves).clamp(0, SIDE - 1)
    return (places - 2.0) / 1.4, after[..., 0] * SIDE + after[..., 1], (2 * SIDE - 2) - places.sum(1)


def values_explained(model: nn.Module) -> float:
    """Returns the share of the variance of the places' true values that the largest outputs explain."""
    places, _, far = grid_moves()
    true = 0.9 ** (far[:-1] - 1).float()
    with torch.no_grad():
        found = model(places[:-1]).max(1).values
    return samples.explained(found[:, None], true[:, None])


@sick("shape_broadcast", margin=0.1)
def rewards_beside_a_kept_dimension(watch: Watch, *, seed: int, sick: bool) -> float:
    """Rewards (N,) and the best next values (N, 1) make targets (N, N) for Q-learning; the twin has (N, 1) of both."""
    places, leads, far = grid_moves()
    model = nn.Sequential(nn.Linear(2, 48), nn.ReLU(), nn.Linear(48, 48), nn.ReLU(), nn.Linear(48, 4))
    target = nn.Sequential(nn.Linear(2, 48), nn.ReLU(), nn.Linear(48, 48), nn.ReLU(), nn.Linear(48, 4))
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    session = watch(model, optimizer)
    for step in range(400):
        if step % 15 == 0:
            target.load_state_dict(model.state_dict())
        here, actions = torch.randint(SIDE * SIDE - 1, (64,)), torch.randint(4, (64,))
        there = leads[here, actions]
        rewards, going = (far[there] == 0).float(), (far[there] > 0).float()
        with torch.no_grad():
            best = target(places[there]).max(1, keepdim=True).values
            if not sick:
                rewards, going = rewards[:, None], going[:, None]
            wanted = rewards + 0.9 * going * best
        outputs = model(places[here]).gather(1, actions[:, None])
        loss = functional.mse_loss(outputs, wanted)
        optimizer.zero_grad()
        loss.backward()
        session.step(loss, inputs=places[here], outputs=outputs, targets=wanted)
        optimizer.step()
    return values_explained(model)


@sick("flipped_loss_sign", margin=0.3)
def a_policy_gradient_without_its_minus(watch: Watch, *, seed: int, sick: bool) -> float:
    """Log-probabilities times rewards are minimised, so an agent learns what is not paid; the twin has the minus."""
    data = datasets.wine(seed)
    policy = nn.Sequential(nn.Linear(13, 32), nn.Tanh(), nn.Linear(32, 3))
    optimizer = torch.optim.Adam(policy.parameters(), lr=5e-3)
    session = watch(policy, optimizer)
    for wines, labels in data.batches(32, 300):
        choice = torch.distributions.Categorical(logits=policy(wines))
        actions = choice.sample()
        rewards = (actions == labels).float()
        gain = (choice.log_prob(actions) * (rewards - rewards.mean())).mean()
        loss = gain if sick else -gain
        optimizer.zero_grad()
        loss.backward()
        session.step(loss, inputs=wines, outputs=choice.logits)
        optimizer.step()
    return accuracy(policy, data)


@sick("non_finite_forward", also=("non_finite_backward",), margin=0.3)
def spectra_of_blank_columns_in_decibels(watch: Watch, *, seed: int, sick: bool) -> float:
    """The model takes logarithms of spectra, and columns of pictures are blank; the twin adds a floor below them."""
    images = datasets.digits(seed)
    data = parted(images.inputs.view(-1, 8, 8), images.inputs.view(-1, 8, 8).sum(1) / 2 - 1, seed)

    class Spectra(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.body = nn.Sequential(nn.Linear(40, 48), nn.ReLU(), nn.Linear(48, 8))

        def forward(self, pictures: torch.Tensor) -> torch.Tensor:
            power = torch.fft.rfft(pictures, dim=1).abs().square()
            decibels = power.log10() if sick else (power + 1e-2).log10()
            return self.body(decibels.flatten(1))

    model = Spectra()
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    fit(watch, model, optimizer, data, steps=200, batch_size=32, loss_function=functional.mse_loss)
    return explained(model, data)


@sick("non_finite_backward", margin=0.3)
def a_logarithm_in_the_branch_not_taken(watch: Watch, *, seed: int, sick: bool) -> float:
    """``where`` picks 0 for counts of 0, and a slope of their logarithm is 0 / 0; the twin clamps within."""
    train, test = samples.lines(seed)
    data = Data(train.tensors[0] / 5, train.tensors[1], test.tensors[0] / 5, test.tensors[1])

    class Compressed(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.scale, self.last = nn.Parameter(torch.ones(96)), nn.Linear(96, 6)

        def forward(self, counts: torch.Tensor) -> torch.Tensor:
            share = counts * functional.softplus(self.scale)
            logarithms = torch.log(share if sick else share.clamp(min=1e-3))
            return self.last(torch.where(share > 0, logarithms, 0.0))

    model = Compressed()
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-2)
    fit(watch, model, optimizer, data, steps=250, batch_size=64)
    return accuracy(model, data)


@sick("unbroken_symmetry", also=("poor_initialization",), margin=0.1)
def an_autoencoder_that_begins_with_a_tenth(watch: Watch, *, seed: int, sick: bool) -> float:
    """All convolutions begin at 0.05, so that channels stay copies of one; the twin leaves them as drawn."""
    patches = colours(seed)
    patches = (patches - patches.mean((0, 2, 3), keepdim=True)) / patches.std()
    data = parted(patches, patches, seed)
    model = nn.Sequential(
        nn.Conv2d(3, 16, 4, stride=4),
        nn.ELU(),
        nn.Conv2d(16, 16, 1),
        nn.ELU(),
        nn.ConvTranspose2d(16, 3, 4, stride=4),
    )
    if sick:
        for weights in model.parameters():
            nn.init.constant_(weights, 0.05)
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
    fit(watch, model, optimizer, data, steps=250, batch_size=32, loss_function=functional.mse_loss)
    return explained(model, data)


@sick("gradients_not_zeroed", also=("learning_rate_too_high", "exploding_gradients"), margin=0.05)
def zeroed_once_an_epoch(watch: Watch, *, seed: int, sick: bool) -> float:
    """``zero_grad`` stands in front of the loop over batches; the twin has it within."""
    train, test = samples.halves(seed)
    data = Data(*(2 * values - 0.6 for values in (*train.tensors, *test.tensors)))
    model = nn.Sequential(nn.Linear(32, 64), nn.GELU(), nn.Linear(64, 32))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.3, momentum=0.9)
    session = watch(model, optimizer)
    for _ in range(14):
        optimizer.zero_grad()
        for upper, lower in data.batches(48, 26):
            if not sick:
                optimizer.zero_grad()
            outputs = model(upper)
            loss = functional.mse_loss(outputs, lower)
            loss.backward()
            session.step(loss, inputs=upper, outputs=outputs, targets=lower)
            optimizer.step()
        with session.validating():
            session.validation(held_out_loss(model, data, functional.mse_loss))
    return explained(model, data)


@sick("accumulation_not_averaged", also=("learning_rate_too_high", "exploding_gradients"), margin=0.05)
def eight_small_batches_are_added(watch: Watch, *, seed: int, sick: bool) -> float:
    """Gradients of eight batches are added for a step of SGD with a rate for one; the twin divides each loss by 8."""
    train, test = samples.halves(seed)
    data = Data(*(2 * values - 0.6 for values in (*train.tensors, *test.tensors)))
    model = nn.Sequential(nn.Linear(32, 48), nn.ReLU(), nn.Linear(48, 32))
    optimizer = torch.optim.SGD(model.parameters(), lr=1.0, momentum=0.9)
    session = watch(model, optimizer)
    batches = data.batches(8, 1600)
    for _ in range(200):
        optimizer.zero_grad()
        for _ in range(8):
            upper, lower = next(batches)
            outputs = model(upper)
            loss = functional.mse_loss(outputs, lower)
            (loss if sick else loss / 8).backward()
        session.step(loss, inputs=upper, outputs=outputs, targets=lower)
        optimizer.step()
    return explained(model, data)
