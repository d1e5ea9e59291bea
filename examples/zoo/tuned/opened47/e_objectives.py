"""What is asked for: heads, losses, their shapes and signs, and penalties."""

import torch
from torch import nn
from torch.nn import functional

from examples.zoo import datasets, samples
from examples.zoo.cases import Watch, sick
from examples.zoo.datasets import Data
from examples.zoo.loops import accuracy, fit, predicted
from examples.zoo.samples import explained
from examples.zoo.tuned.opened47.e_kit import letters, loop, numerals, themselves


@sick("target_out_of_range", also=("wrong_output_or_loss",), margin=0.1)
def sigmoid_decoder_of_standardised_pixels(watch: Watch, *, seed: int, sick: bool) -> float:
    """An autoencoder's sigmoid stayed when its pixels were standardised; the twin's decoder ends linearly."""
    data = themselves(numerals(seed, 1, 8, 8))
    model = nn.Sequential(
        nn.Conv2d(1, 12, 3, stride=2, padding=1), nn.ReLU(), nn.Conv2d(12, 8, 3, stride=2, padding=1), nn.ReLU(),
        nn.ConvTranspose2d(8, 12, 2, stride=2), nn.ReLU(), nn.ConvTranspose2d(12, 1, 2, stride=2),
        nn.Sigmoid() if sick else nn.Identity(),
    )  # fmt: skip
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
    fit(watch, model, optimizer, data, steps=250, loss_function=functional.mse_loss)
    return explained(predicted(model, data.test_inputs).flatten(1), data.test_targets.flatten(1))


@sick("wrong_output_or_loss", margin=0.05)
def distilled_from_probabilities(watch: Watch, *, seed: int, sick: bool) -> float:
    """``kl_div`` gets the student's probabilities, where it wants their logarithms; the twin gives those."""
    digits = numerals(seed, 64)
    teacher = nn.Sequential(nn.Linear(64, 96), nn.ReLU(), nn.Linear(96, 10))
    lessons = torch.optim.Adam(teacher.parameters(), lr=3e-3)
    for inputs, labels in digits.batches(64, 100):
        lessons.zero_grad()
        functional.cross_entropy(teacher(inputs), labels).backward()
        lessons.step()
    with torch.no_grad():
        soft = [(teacher(inputs) / 3).softmax(1) for inputs in (digits.inputs, digits.test_inputs)]
    data = Data(digits.inputs, soft[0], digits.test_inputs, soft[1])
    model = nn.Sequential(nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 10))

    def step(inputs: torch.Tensor, wanted: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        logits = model(inputs)
        outputs = logits.softmax(1) if sick else logits.log_softmax(1)
        return functional.kl_div(outputs, wanted, reduction="batchmean"), outputs

    loop(watch, model, torch.optim.Adam(model.parameters(), lr=3e-3), data, step, steps=300)
    return explained(predicted(model, data.test_inputs).softmax(1), data.test_targets)


class Gaussian(nn.Module):
    """A mean (N, 1) and the logarithm of a variance (N, 1)."""

    def __init__(self, features: int) -> None:
        super().__init__()
        self.body = nn.Sequential(nn.Linear(features, 32), nn.SiLU())
        self.mean, self.spread = nn.Linear(32, 1), nn.Linear(32, 1)

    def forward(self, inputs: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Returns both."""
        hidden = self.body(inputs)
        return self.mean(hidden), self.spread(hidden)


@sick("shape_broadcast", margin=0.2)
def likelihood_of_every_pair(watch: Watch, *, seed: int, sick: bool) -> float:
    """A Gaussian likelihood by hand takes means (N, 1) and targets (N,), so it spans (N, N); the twin squeezes."""
    pair = samples.standardised(samples.proline(seed), 0, 1)
    data = Data(*(column.squeeze(1) if column.shape[1] == 1 else column for part in pair for column in part.tensors))
    model = Gaussian(12)

    def step(inputs: torch.Tensor, targets: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        mean, spread = model(inputs)
        if not sick:
            mean, spread = mean.squeeze(1), spread.squeeze(1)
        return 0.5 * ((targets - mean).square() / spread.exp() + spread).mean(), mean

    loop(watch, model, torch.optim.Adam(model.parameters(), lr=5e-3), data, step, steps=200, size=32)
    with torch.no_grad():
        return explained(model(data.test_inputs)[0], data.test_targets[:, None])


@sick("flipped_loss_sign", margin=0.3)
def policy_gradient_goes_downhill(watch: Watch, *, seed: int, sick: bool) -> float:
    """A bandit's log-probability times advantage is minimised without its minus; the twin has it."""
    data = numerals(seed, 64)
    model = nn.Sequential(nn.Linear(64, 64), nn.Tanh(), nn.Linear(64, 10))
    usual = 0.1

    def step(inputs: torch.Tensor, labels: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        nonlocal usual
        outputs = model(inputs)
        policy = torch.distributions.Categorical(logits=outputs)
        actions = policy.sample()
        rewards = (actions == labels).float()
        gain = (policy.log_prob(actions) * (rewards - usual)).mean()
        usual = 0.9 * usual + 0.1 * rewards.mean().item()
        return (gain if sick else -gain), outputs

    loop(watch, model, torch.optim.Adam(model.parameters(), lr=5e-3), data, step, steps=300, size=128)
    return accuracy(model, data)


@sick("over_regularized", margin=0.1)
def keep_probability_as_dropout(watch: Watch, *, seed: int, sick: bool) -> float:
    """TensorFlow's ``keep_prob`` of 0.95 became ``Dropout(0.95)`` in a port; the twin drops 0.05."""
    data = letters(seed)
    drop = 0.95 if sick else 1 - 0.95
    model = nn.Sequential(
        nn.EmbeddingBag(samples.LETTERS, 48, padding_idx=0), nn.Dropout(drop), nn.Linear(48, 64), nn.ReLU(),
        nn.Dropout(drop), nn.Linear(64, 8),
    )  # fmt: skip
    fit(watch, model, torch.optim.Adam(model.parameters(), lr=5e-3), data, steps=200, batch_size=48)
    return accuracy(model, data)


class Variational(nn.Module):
    """A variational autoencoder of digits."""

    def __init__(self) -> None:
        super().__init__()
        self.encode = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 2 * 10))
        self.decode = nn.Sequential(nn.Linear(10, 64), nn.ReLU(), nn.Linear(64, 64))

    def forward(self, inputs: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Returns logits of pixels, and the divergence of each sample."""
        mean, spread = self.encode(inputs).chunk(2, 1)
        code = mean + (0.5 * spread).exp() * torch.randn_like(mean) if self.training else mean
        return self.decode(code), 0.5 * (mean.square() + spread.exp() - 1 - spread).sum(1)


@sick("over_regularized", margin=0.1)
def divergence_beside_a_mean_of_pixels(watch: Watch, *, seed: int, sick: bool) -> float:
    """A divergence per picture is added to an error per pixel, and weighs 64-fold; the twin adds up the pixels."""
    data = themselves(datasets.digits(seed))
    model = Variational()

    def step(inputs: torch.Tensor, targets: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        outputs, divergence = model(inputs)
        errors = functional.binary_cross_entropy_with_logits(outputs, targets, reduction="none")
        errors = errors.mean(1) if sick else errors.sum(1)
        return (errors + divergence).mean(), outputs

    loop(watch, model, torch.optim.Adam(model.parameters(), lr=4e-3), data, step, steps=350)
    model.eval()
    with torch.no_grad():
        return explained(model(data.test_inputs)[0].sigmoid(), data.test_targets)
