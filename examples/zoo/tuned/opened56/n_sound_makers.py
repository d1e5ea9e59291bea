"""Sound trainings that look odd: makers, codes, policies and rivals."""

import math

import torch
from torch import nn
from torch.nn import functional

from examples.zoo import datasets, samples
from examples.zoo.cases import Watch, healthy
from examples.zoo.datasets import Data
from examples.zoo.loops import accuracy, fit, predicted
from examples.zoo.tuned.opened56.n_common import as_data, explained, standard


@healthy(at_least=0.7)
def forger_of_tumours_and_its_judge(watch: Watch, *, seed: int) -> float:
    """A GAN with logistic losses, whose losses swing, makes four measurements; it is judged by their correlations."""
    real = datasets.breast_cancer(seed).inputs[:, 4:8]
    forger = nn.Sequential(nn.Linear(6, 48), nn.LeakyReLU(0.2), nn.Linear(48, 4))
    judge = nn.Sequential(nn.Linear(4, 48), nn.LeakyReLU(0.2), nn.Linear(48, 1))
    forges, judges = (torch.optim.Adam(one.parameters(), lr=2e-3, betas=(0.5, 0.999)) for one in (forger, judge))
    forging, judging = watch(forger, forges), watch(judge, judges)
    for _ in range(350):
        true, noise = real[torch.randint(len(real), (64,))], torch.randn(64, 6)
        made = forger(noise)
        judges.zero_grad()
        loss = functional.softplus(-judge(true)).mean() + functional.softplus(judge(made.detach())).mean()
        loss.backward()
        judging.step(loss, inputs=true)
        judges.step()
        forges.zero_grad()
        loss = functional.softplus(-judge(made)).mean()
        loss.backward()
        forging.step(loss, inputs=noise, outputs=made)
        forges.step()
    found = predicted(forger, torch.randn(1000, 6)).T.corrcoef()
    return 1 - (found - real.T.corrcoef()).abs().mean().item()


class DigitCoder(nn.Module):
    """A variational autoencoder of digits, which uses the mean code outside of the training."""

    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Sequential(nn.Linear(64, 64), nn.SiLU())
        self.mean, self.spread = nn.Linear(64, 6), nn.Linear(64, 6)
        self.decoder = nn.Sequential(nn.Linear(6, 64), nn.SiLU(), nn.Linear(64, 64))
        for zero in (self.mean, self.spread):
            nn.init.normal_(zero.weight, std=1e-2)
            nn.init.zeros_(zero.bias)

    def coded(self, pixels: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Returns the means and the logarithms of the variances."""
        features = self.body(pixels)
        return self.mean(features), self.spread(features)

    def forward(self, pixels: torch.Tensor) -> torch.Tensor:
        """Returns the pixels that the mean code stands for."""
        return self.decoder(self.coded(pixels)[0])


@healthy(at_least=0.4)
def digit_coder_whose_divergence_grows(watch: Watch, *, seed: int) -> float:
    """The divergence from the prior is 0 at first, and grows as the code comes into use."""
    digits = datasets.digits(seed)
    data = Data(digits.inputs, digits.inputs, digits.test_inputs, digits.test_inputs)
    model = DigitCoder()
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    session = watch(model, optimizer)
    for step, (pixels, _) in enumerate(data.batches(64, 350)):
        mean, logarithm = model.coded(pixels)
        outputs = model.decoder(mean + (logarithm / 2).exp() * torch.randn_like(mean))
        divergence = 0.5 * (mean.square() + logarithm.exp() - 1 - logarithm).sum(1).mean()
        errors = (outputs - pixels).square().sum(1).mean()
        loss = errors + min(1, step / 150) * 0.1 * divergence
        optimizer.zero_grad()
        loss.backward()
        session.step(loss, inputs=pixels, outputs=outputs, targets=pixels)
        optimizer.step()
    return explained(model, data)


@healthy(at_least=0.6)
def strokes_told_by_few_of_many_features(watch: Watch, *, seed: int) -> float:
    """A wide ReLU code with a small penalty of its sum describes digits, and most of it is 0."""
    digits = datasets.digits(seed)
    data = Data(digits.inputs, digits.inputs, digits.test_inputs, digits.test_inputs)
    encoder, decoder = nn.Sequential(nn.Linear(64, 160), nn.ReLU()), nn.Linear(160, 64)
    model = nn.Sequential(encoder, decoder)
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)
    session = watch(model, optimizer)
    for pixels, _ in data.batches(64, 300):
        code = encoder(pixels)
        outputs = decoder(code)
        loss = functional.mse_loss(outputs, pixels) + 2e-5 * code.sum(1).mean()
        optimizer.zero_grad()
        loss.backward()
        session.step(loss, inputs=pixels, outputs=outputs, targets=pixels)
        optimizer.step()
    return explained(model, data)


@healthy(at_least=0.6)
def policy_paid_for_right_scripts(watch: Watch, *, seed: int) -> float:
    """REINFORCE with a running baseline and a bonus of entropy; its loss has no trend, while the rewards rise."""
    data = standard(samples.lines(seed), 0)
    model = nn.Sequential(nn.Linear(96, 48), nn.Tanh(), nn.Linear(48, 6))
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-3, weight_decay=1e-4)
    session, baseline = watch(model, optimizer), 1 / 6
    for rows, answers in data.batches(128, 220):
        policy = torch.distributions.Categorical(logits=model(rows))
        actions = policy.sample()
        rewards = (actions == answers).float()
        loss = -(policy.log_prob(actions) * (rewards - baseline)).mean() - 0.01 * policy.entropy().mean()
        baseline += 0.1 * (rewards.mean().item() - baseline)
        optimizer.zero_grad()
        loss.backward()
        session.step(loss, inputs=rows, outputs=policy.logits)
        optimizer.step()
    return accuracy(model, data)


@healthy(at_least=0.8)
def two_views_of_a_digit_find_each_other(watch: Watch, *, seed: int) -> float:
    """A contrastive loss pairs upper and lower halves in a batch; the code is judged by nearest neighbours' numbers."""
    digits = datasets.digits(seed)
    model = nn.Sequential(nn.Linear(64, 96), nn.ReLU(), nn.Linear(96, 24))
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3, weight_decay=1e-2)
    session = watch(model, optimizer)
    for pixels, _ in digits.batches(96, 250):
        both = [pixels * (torch.rand_like(pixels) > 0.3) for _ in range(2)]
        first, second = (functional.normalize(model(view), dim=-1) for view in both)
        logits = first @ second.T / 0.2
        loss = functional.cross_entropy(logits, torch.arange(len(logits)))
        optimizer.zero_grad()
        loss.backward()
        session.step(loss, inputs=both[0])
        optimizer.step()
    known, asked = (functional.normalize(predicted(model, x), dim=-1) for x in (digits.inputs, digits.test_inputs))
    nearest = (asked @ known.T).argmax(1)
    return (digits.targets[nearest] == digits.test_targets).float().mean().item()


@healthy(at_least=0.35)
def noise_guessed_at_all_strengths(watch: Watch, *, seed: int) -> float:
    """A diffusion model of digits guesses the noise, hopeless where there is little of it: the loss levels off."""
    digits = datasets.digits(seed)

    class Denoiser(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.body = nn.Sequential(nn.Linear(66, 128), nn.SiLU(), nn.Linear(128, 128), nn.SiLU())
            self.out = nn.Linear(128, 64)
            nn.init.zeros_(self.out.weight)
            nn.init.zeros_(self.out.bias)

        def forward(self, noisy: torch.Tensor, angle: torch.Tensor) -> torch.Tensor:
            return self.out(self.body(torch.cat([noisy, angle.cos(), angle.sin()], 1)))

    def mixed(pixels: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        angle, noise = torch.rand(len(pixels), 1) * math.pi / 2, torch.randn_like(pixels)
        return (2 * pixels - 1) * angle.cos() + noise * angle.sin(), angle, noise

    model = Denoiser()
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    session = watch(model, optimizer)
    for pixels, _ in digits.batches(96, 350):
        noisy, angle, noise = mixed(pixels)
        outputs = model(noisy, angle)
        loss = functional.mse_loss(outputs, noise)
        optimizer.zero_grad()
        loss.backward()
        session.step(loss, inputs=noisy, outputs=outputs, targets=noise)
        optimizer.step()
    with torch.no_grad():
        noisy, angle, noise = mixed(digits.test_inputs)
        return samples.explained(model(noisy, angle), noise)


@healthy(at_least=0.5)
def proline_predicted_in_its_hundreds(watch: Watch, *, seed: int) -> float:
    """Targets of many hundreds; the model itself takes mean and deviation off, and the loss is in units of both."""
    data = standard(samples.proline(seed), 0)
    mean, std = data.targets.mean(), data.targets.std()

    class InUnits(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.body = nn.Sequential(nn.Linear(12, 24), nn.Tanh(), nn.Linear(24, 1))
            self.register_buffer("mean", mean)
            self.register_buffer("std", std)

        def forward(self, rows: torch.Tensor) -> torch.Tensor:
            return self.body(rows) * self.std + self.mean

    model = InUnits()
    optimizer = torch.optim.AdamW(model.parameters(), lr=5e-3, weight_decay=0.1)

    def in_deviations(outputs: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        return functional.mse_loss(outputs / std, targets / std)

    fit(watch, model, optimizer, data, steps=200, batch_size=32, loss_function=in_deviations)
    return explained(model, data)


@healthy(at_least=0.25)
def lower_halves_from_a_mixture(watch: Watch, *, seed: int) -> float:
    """A gate sends each upper half to the best of eight experts, so several experts wait without gradients."""
    data = as_data(samples.halves(seed))

    class Routed(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.gate = nn.Linear(32, 8)
            self.experts = nn.ModuleList(
                nn.Sequential(nn.Linear(32, 32), nn.ReLU(), nn.Linear(32, 32)) for _ in range(8)
            )

        def forward(self, upper: torch.Tensor) -> torch.Tensor:
            shares, chosen = self.gate(upper).softmax(1).topk(1, 1)
            outputs = upper.new_zeros(len(upper), 32)
            for index, expert in enumerate(self.experts):
                rows = (chosen[:, 0] == index).nonzero()[:, 0]
                if len(rows):
                    outputs = outputs.index_add(0, rows, shares[rows] * expert(upper[rows]))
            return outputs

    model = Routed()
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
    fit(watch, model, optimizer, data, steps=350, batch_size=64, loss_function=functional.mse_loss)
    return explained(model, data)
