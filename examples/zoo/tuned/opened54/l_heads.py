"""Heads, losses, and modes."""

import torch
from torch import nn
from torch.nn import functional

from examples.zoo import datasets, samples
from examples.zoo.cases import Watch, sick
from examples.zoo.datasets import Data
from examples.zoo.loops import accuracy, fit, predicted, r_squared
from examples.zoo.tuned.opened54.l_tools import data_of, halves, numerals


@sick("target_out_of_range", margin=0.1)
def denoiser_that_ends_like_a_decoder(watch: Watch, *, seed: int, sick: bool) -> float:
    """A denoiser that predicts standard normal noise ends in a sigmoid, as image decoders do; the twin is linear."""
    drawn = numerals(seed, flat=True)

    class Denoiser(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.body = nn.Sequential(nn.Linear(65, 128), nn.SiLU(), nn.Linear(128, 64))

        def forward(self, noisy: torch.Tensor) -> torch.Tensor:
            noise = self.body(noisy)
            return noise.sigmoid() if sick else noise

    def corrupted(pixels: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        noise, time = torch.randn_like(pixels), torch.rand(len(pixels), 1)
        angle = time * torch.pi / 2
        return torch.cat([angle.cos() * pixels + angle.sin() * noise, time], 1), noise

    model = Denoiser()
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    session = watch(model, optimizer)
    for pixels, _ in drawn.batches(64, 300):
        noisy, noise = corrupted(pixels)
        optimizer.zero_grad()
        outputs = model(noisy)
        loss = functional.mse_loss(outputs, noise)
        loss.backward()
        session.step(loss, inputs=noisy, outputs=outputs, targets=noise)
        optimizer.step()
    noisy, noise = corrupted(drawn.test_inputs)
    return samples.explained(predicted(model, noisy), noise)


@sick("wrong_output_or_loss", margin=0.05)
def likelihood_of_plain_probabilities(watch: Watch, *, seed: int, sick: bool) -> float:
    """``nll_loss`` gets a softmax's probabilities; the twin gives it their logarithms."""
    data = numerals(seed)
    last: nn.Module = nn.Softmax(1) if sick else nn.LogSoftmax(1)
    model = nn.Sequential(nn.Conv2d(1, 12, 3, stride=2), nn.ReLU(), nn.Flatten(), nn.Linear(108, 10), last)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.02, momentum=0.5)
    fit(watch, model, optimizer, data, steps=150, batch_size=48, loss_function=functional.nll_loss)
    return accuracy(model, data)


@sick("shape_broadcast", margin=0.2)
def pinball_over_a_square(watch: Watch, *, seed: int, sick: bool) -> float:
    """The pinball loss of the median subtracts (N, 1) from (N,), which is all pairs; the twin squeezes first."""
    drawn = data_of(samples.standardised(samples.proline(seed), 0, 1))
    data = Data(drawn.inputs, drawn.targets.squeeze(1), drawn.test_inputs, drawn.test_targets.squeeze(1))

    def pinball(outputs: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        error = targets - (outputs if sick else outputs.squeeze(1))
        return torch.maximum(0.5 * error, -0.5 * error).mean()

    model = nn.Sequential(nn.Linear(12, 16), nn.Tanh(), nn.Linear(16, 1))
    optimizer = torch.optim.AdamW(model.parameters(), lr=5e-3, weight_decay=0.05)
    fit(watch, model, optimizer, data, steps=200, batch_size=24, loss_function=pinball)
    return r_squared(model, data)


@sick("flipped_loss_sign", margin=0.3)
def rewards_taken_down(watch: Watch, *, seed: int, sick: bool) -> float:
    """A policy's loss is ``log_prob * advantage`` without its minus, so that rewards fall; the twin has the minus."""
    data = numerals(seed, flat=True)
    policy = nn.Sequential(nn.Linear(64, 64), nn.Tanh(), nn.Linear(64, 10))
    optimizer = torch.optim.Adam(policy.parameters(), lr=5e-3)
    session = watch(policy, optimizer)
    average = 0.1
    for pixels, labels in data.batches(128, 300):
        choice = torch.distributions.Categorical(logits=policy(pixels))
        actions = choice.sample()
        rewards = (actions == labels).float()
        advantages = rewards - average
        average = 0.9 * average + 0.1 * rewards.mean().item()
        gain = (choice.log_prob(actions) * advantages).mean() + 0.01 * choice.entropy().mean()
        loss = gain if sick else -gain
        optimizer.zero_grad()
        loss.backward()
        session.step(loss, inputs=pixels)
        optimizer.step()
    return accuracy(policy, data)


@sick("loss_sum_not_mean", also=("learning_rate_too_high", "exploding_gradients"), margin=0.1)
def pixels_summed_under_a_rate_for_means(watch: Watch, *, seed: int, sick: bool) -> float:
    """Huber's loss of 32 pixels in 32 rows is summed at a rate that was set for its mean; the twin takes the mean."""
    data = halves(seed)
    kind = "sum" if sick else "mean"

    def huber(outputs: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        return functional.huber_loss(outputs, targets, reduction=kind)

    model = nn.Sequential(nn.Linear(32, 64), nn.ReLU(), nn.Linear(64, 32))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.5, momentum=0.9)
    fit(watch, model, optimizer, data, steps=300, batch_size=32, loss_function=huber)
    return samples.explained(predicted(model, data.test_inputs), data.test_targets)


@sick("wrong_mode", margin=0.03)
def scored_with_the_dropout_on(watch: Watch, *, seed: int, sick: bool) -> float:
    """Nobody calls ``eval()``, so that validation and the final score drop half of the units; the twin calls it."""
    data = numerals(seed, flat=True)
    model = nn.Sequential(nn.Linear(64, 48), nn.ReLU(), nn.Dropout(0.5), nn.Linear(48, 32), nn.ReLU())
    model.extend([nn.Dropout(0.5), nn.Linear(32, 10)])
    optimizer = torch.optim.Adam(model.parameters(), lr=4e-3)
    session = watch(model, optimizer)

    def scored() -> tuple[float, float]:
        model.train(sick)
        with torch.no_grad():
            outputs = model(data.test_inputs)
        model.train()
        return (
            functional.cross_entropy(outputs, data.test_targets).item(),
            samples.accuracy(outputs, data.test_targets),
        )

    for step, (pixels, labels) in enumerate(data.batches(48, 250), 1):
        optimizer.zero_grad()
        outputs = model(pixels)
        loss = functional.cross_entropy(outputs, labels)
        loss.backward()
        session.step(loss, inputs=pixels, outputs=outputs, targets=labels)
        optimizer.step()
        if step % 25 == 0:
            session.validation(scored()[0])
    return scored()[1]


@sick("non_finite_forward", also=("non_finite_backward",), margin=0.1)
def entropy_written_by_hand(watch: Watch, *, seed: int, sick: bool) -> float:
    """``log(1 - p)`` of a sigmoid that has reached 1 in float32 is infinite; the twin takes the loss of the logits."""
    data = datasets.breast_cancer(seed)

    def entropy(outputs: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        outputs, wanted = outputs.squeeze(1), labels.float()
        if not sick:
            return functional.binary_cross_entropy_with_logits(outputs, wanted)
        chance = outputs.sigmoid()
        return -(wanted * chance.log() + (1 - wanted) * (1 - chance).log()).mean()

    model = nn.Sequential(nn.Linear(30, 64), nn.ReLU(), nn.Linear(64, 1))
    optimizer = torch.optim.Adam(model.parameters(), lr=8e-3)
    fit(watch, model, optimizer, data, steps=300, batch_size=32, loss_function=entropy)
    outputs = predicted(model, data.test_inputs).squeeze(1)
    if outputs.isnan().any():
        return 0.0
    return ((outputs > 0) == (data.test_targets > 0.5)).float().mean().item()


@sick("non_finite_backward", also=("non_finite_forward",), margin=0.1)
def where_does_not_shield_the_root(watch: Watch, *, seed: int, sick: bool) -> float:
    """``torch.where(x > 0, x.sqrt(), 0)`` has a NaN for a gradient below 0; the twin clamps in front of the root."""
    data = data_of(samples.standardised(samples.tumours(seed), 0, 1))

    class Rooted(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first, self.last = nn.Linear(10, 32), nn.Linear(32, 10)

        def forward(self, rows: torch.Tensor) -> torch.Tensor:
            hidden = self.first(rows)
            safe = hidden if sick else hidden.clamp(min=1e-2)
            return self.last(torch.where(hidden > 0, safe.sqrt(), 0.0))

    model = Rooted()
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
    fit(watch, model, optimizer, data, steps=200, batch_size=32, loss_function=functional.mse_loss)
    return samples.explained(predicted(model, data.test_inputs), data.test_targets)
