"""Losses, heads and penalties that ask for something else."""

import torch
from torch import nn
from torch.nn import functional

from examples.zoo import datasets, samples
from examples.zoo.cases import Watch, sick
from examples.zoo.datasets import Data
from examples.zoo.loops import accuracy, fit, predicted, r_squared
from examples.zoo.samples import explained, standardised
from examples.zoo.tuned.opened50.h_kit import NameReader, centred_digits, dense, learn, paired


@sick("target_out_of_range", also=("wrong_output_or_loss", "dead_units"), margin=0.15)
def noise_predicted_through_a_relu(watch: Watch, *, seed: int, sick: bool) -> float:
    """A denoiser predicts Gaussian noise, but ends in a ReLU that gives no negative numbers; the twin ends linearly."""
    data = centred_digits(seed)
    layers = dense(64, 128, 128, 64)
    model = nn.Sequential(*layers, nn.ReLU()) if sick else layers
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)
    session = watch(model, optimizer)
    for pixels, _ in data.batches(64, 350):
        noise = torch.randn_like(pixels)
        noisy = 0.7 * pixels + 0.7 * noise
        outputs = model(noisy)
        loss = functional.mse_loss(outputs, noise)
        optimizer.zero_grad()
        loss.backward()
        session.step(loss, inputs=noisy, outputs=outputs, targets=noise)
        optimizer.step()
    noise = torch.randn(data.test_inputs.shape, generator=torch.Generator().manual_seed(seed))
    return explained(predicted(model, 0.7 * data.test_inputs + 0.7 * noise), noise)


@sick("wrong_output_or_loss", margin=0.1)
def nll_loss_of_raw_logits(watch: Watch, *, seed: int, sick: bool) -> float:
    """``nll_loss`` gets logits without a ``log_softmax`` and falls without an end; the twin has both."""
    data = paired(samples.names(seed))
    model = NameReader(24)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)

    def objective(codes: torch.Tensor, scripts: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        outputs = model(codes)
        outputs = outputs if sick else outputs.log_softmax(-1)
        return functional.nll_loss(outputs, scripts), outputs

    learn(watch, model, optimizer, data, objective, steps=220, size=48)
    return accuracy(model, data)


@sick("wrong_output_or_loss", margin=0.1)
def sigmoid_before_the_loss_with_logits(watch: Watch, *, seed: int, sick: bool) -> float:
    """``BCEWithLogitsLoss`` gets what a sigmoid has already squashed, so each label is likely; the twin has logits."""
    drawn = datasets.digits(seed)
    train, test = (torch.stack([one % 2 == 0, one % 3 == 0, one > 5], 1).float()
                   for one in (drawn.targets, drawn.test_targets))  # fmt: skip
    data = Data(drawn.inputs, train, drawn.test_inputs, test)
    model = dense(64, 48, 3)
    if sick:
        model.append(nn.Sigmoid())
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    fit(watch, model, optimizer, data, steps=250, loss_function=nn.BCEWithLogitsLoss())
    guessed = predicted(model, data.test_inputs).sigmoid() > 0.5
    return (guessed == (test > 0.5)).float().mean().item()


@sick("shape_broadcast", margin=0.15)
def median_loss_of_a_column_and_a_row(watch: Watch, *, seed: int, sick: bool) -> float:
    """A median's pinball loss takes targets (N,) from outputs (N, 1), which makes (N, N); the twin squeezes them."""
    drawn = datasets.diabetes(seed)
    data = Data(drawn.inputs, drawn.targets.squeeze(1), drawn.test_inputs, drawn.test_targets.squeeze(1))
    model = dense(10, 16, 1)
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3, weight_decay=0.05)

    def objective(inputs: torch.Tensor, targets: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        outputs = model(inputs) if sick else model(inputs).squeeze(1)
        errors = targets - outputs
        return torch.maximum(0.5 * errors, -0.5 * errors).mean(), outputs

    learn(watch, model, optimizer, data, objective, steps=160, size=48)
    return r_squared(model, data)


@sick("flipped_loss_sign", margin=0.3)
def policy_pushed_down_its_rewards(watch: Watch, *, seed: int, sick: bool) -> float:
    """A policy's gradient goes down the expected reward, as the loss lacks its minus; the twin has it."""
    data = datasets.wine(seed)
    model = dense(13, 32, 3, activation=nn.Tanh)
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
    sign = 1.0 if sick else -1.0

    def objective(states: torch.Tensor, best: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        policy = torch.distributions.Categorical(logits=model(states))
        actions = policy.sample()
        rewards = (actions == best).float()
        return sign * (policy.log_prob(actions) * (rewards - 0.4)).mean(), policy.logits

    learn(watch, model, optimizer, data, objective, steps=250, size=64)
    return accuracy(model, data)


@sick("over_regularized", margin=0.05)
def keep_probabilities_given_as_dropout(watch: Watch, *, seed: int, sick: bool) -> float:
    """TensorFlow's ``keep_prob=0.92`` became ``Dropout(0.92)``, which keeps 8 %; the twin drops those 8 %."""
    data = paired(samples.lines(seed))
    mean, std = data.inputs.mean(0), data.inputs.std(0) + 0.1
    data = Data((data.inputs - mean) / std, data.targets, (data.test_inputs - mean) / std, data.test_targets)
    rate = 0.92 if sick else 0.08
    model = nn.Sequential(
        nn.Linear(96, 64), nn.ReLU(), nn.Dropout(rate), nn.Linear(64, 32), nn.ReLU(), nn.Dropout(rate), nn.Linear(32, 6)
    )
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    fit(watch, model, optimizer, data, steps=150)
    return accuracy(model, data)


@sick("overfitting", margin=0.15)
def wide_net_for_a_few_patients(watch: Watch, *, seed: int, sick: bool) -> float:
    """Two layers of 512 units learn 330 patients by heart; the twin has 6 units and a weight decay."""
    data = datasets.diabetes(seed)
    model = dense(10, 512, 512, 1) if sick else dense(10, 6, 1)
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3, weight_decay=0.0 if sick else 0.1)
    fit(watch, model, optimizer, data, steps=400, loss_function=functional.mse_loss, validate_every=20)
    return r_squared(model, data)


def prolines(seed: int) -> Data:
    """Returns wines, standardised, with their proline as it was measured."""
    return paired(standardised(samples.proline(seed), 0))
