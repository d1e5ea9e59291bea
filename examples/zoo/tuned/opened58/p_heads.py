"""Heads, losses, and what regularises them."""

import torch
from torch import nn
from torch.nn import functional

from examples.zoo import datasets, samples
from examples.zoo.cases import Watch, sick
from examples.zoo.datasets import Data
from examples.zoo.loops import accuracy, fit, held_out_loss, predicted, r_squared
from examples.zoo.tuned.opened58.p_common import of, stack


@sick("target_out_of_range")
def squashed_decoder_of_centred_strokes(watch: Watch, *, seed: int, sick: bool) -> float:
    """An autoencoder's decoder ends in a sigmoid, but pixels have mean 0 and deviation 1; the twin ends in a layer."""
    images, _ = zip(*(part.tensors for part in samples.numerals(seed)), strict=True)
    flat = [part.flatten(1) for part in images]
    data = Data(flat[0], flat[0], flat[1], flat[1])
    model = stack(64, 48, 12, 48, 64)
    if sick:
        model.append(nn.Sigmoid())
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    fit(watch, model, optimizer, data, steps=250, loss_function=functional.mse_loss)
    return samples.explained(predicted(model, data.test_inputs), data.test_targets)


@sick("wrong_output_or_loss")
def likelihood_of_raw_logits(watch: Watch, *, seed: int, sick: bool) -> float:
    """NLLLoss takes logits that no log_softmax has normalised; the twin's head has one."""
    data = of(samples.names(seed))

    class Bag(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.letters, self.mix = nn.Embedding(samples.LETTERS, 16, padding_idx=0), nn.Conv1d(16, 48, 3, padding=1)
            self.head = nn.Linear(48, 8)

        def forward(self, codes: torch.Tensor) -> torch.Tensor:
            found = self.mix(self.letters(codes).transpose(1, 2)).relu().amax(-1)
            return self.head(found) if sick else self.head(found).log_softmax(-1)

    model = Bag()
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
    fit(watch, model, optimizer, data, steps=120, batch_size=32, loss_function=functional.nll_loss)
    return accuracy(model, data)


@sick("shape_broadcast")
def critic_less_a_row_of_returns(watch: Watch, *, seed: int, sick: bool) -> float:
    """A value net gives a column, returns are a row, and the hand-written loss takes all differences.

    The twin squeezes the column.
    """
    data = of(samples.standardised(samples.proline(seed), 0, 1))
    data = Data(data.inputs, data.targets[:, 0], data.test_inputs, data.test_targets[:, 0])
    model = nn.Sequential(*stack(12, 24, 1, activation=nn.Tanh), *([] if sick else [nn.Flatten(0)]))
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)

    def log_cosh(outputs: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        errors = outputs - targets
        return (errors + functional.softplus(-2 * errors)).mean()

    fit(watch, model, optimizer, data, steps=150, batch_size=32, loss_function=log_cosh)
    return r_squared(model, data)


@sick("flipped_loss_sign")
def policy_away_from_rewards(watch: Watch, *, seed: int, sick: bool) -> float:
    """A policy's surrogate, advantage times log-probability, is descended without its minus; the twin has the minus."""
    data = of(samples.numerals(seed))
    data = Data(data.inputs.flatten(1), data.targets, data.test_inputs.flatten(1), data.test_targets)
    policy = stack(64, 48, 10, activation=nn.Tanh)
    optimizer = torch.optim.Adam(policy.parameters(), lr=5e-3)
    session, sign, usual = watch(policy, optimizer), 1 if sick else -1, 0.1
    for states, labels in data.batches(128, 300):
        logits = policy(states)
        choice = torch.distributions.Categorical(logits=logits)
        actions = choice.sample()
        rewards = (actions == labels).float()
        loss = sign * (choice.log_prob(actions) * (rewards - usual)).mean()
        usual = 0.9 * usual + 0.1 * rewards.mean().item()
        optimizer.zero_grad()
        loss.backward()
        session.step(loss, inputs=states, outputs=logits)
        optimizer.step()
    return accuracy(policy, data)


@sick("over_regularized")
def divergence_summed_over_everything(watch: Watch, *, seed: int, sick: bool) -> float:
    """A VAE's divergence is summed over batch and codes while its reconstruction is a mean over pixels, and collapses.

    The twin sums pixels and codes alike and averages over samples.
    """
    data = datasets.digits(seed)

    class Coder(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.encoder, self.decoder = stack(64, 64, 16), stack(8, 64, 64)

        def forward(self, pixels: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
            mean, log_variance = self.encoder(pixels).chunk(2, -1)
            noise = torch.randn_like(mean) if self.training else 0.0
            return self.decoder(mean + noise * (0.5 * log_variance).exp()), mean, log_variance

    model = Coder()
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    session = watch(model, optimizer)
    for pixels, _ in data.batches(64, 300):
        outputs, mean, log_variance = model(pixels)
        errors = (outputs - pixels).square() / 0.1
        divergence = 0.5 * (mean.square() + log_variance.exp() - 1 - log_variance)
        loss = errors.mean() + divergence.sum() if sick else (0.5 * errors.sum(1) + divergence.sum(1)).mean()
        optimizer.zero_grad()
        loss.backward()
        session.step(loss, inputs=pixels, outputs=outputs, targets=pixels)
        optimizer.step()
    rebuilt, seen = predicted(model, data.test_inputs)[0], data.test_inputs
    return 1 - ((rebuilt - seen).square().mean() / seen.var(0).mean()).item()


@sick("overfitting")
def wide_net_on_few_patients(watch: Watch, *, seed: int, sick: bool) -> float:
    """A wide net learns three hundred patients by heart; the twin is small, drops units and decays its weights."""
    data = datasets.diabetes(seed)
    if sick:
        model, decay = stack(10, 256, 256, 1), 0.0
    else:
        model, decay = nn.Sequential(nn.Linear(10, 12), nn.ReLU(), nn.Dropout(0.2), nn.Linear(12, 1)), 0.3
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3, weight_decay=decay)
    fit(watch, model, optimizer, data, steps=300, batch_size=32, loss_function=functional.mse_loss, validate_every=20)
    return r_squared(model, data)


@sick("over_regularized")
def nine_tenths_meant_to_be_kept(watch: Watch, *, seed: int, sick: bool) -> float:
    """Dropout of 0.9 was the other framework's share to keep; the twin drops 0.1."""
    data = of(samples.lines(seed))
    data = Data(data.inputs.sqrt() - 0.6, data.targets, data.test_inputs.sqrt() - 0.6, data.test_targets)
    share = 0.9 if sick else 0.1
    model = nn.Sequential(
        nn.Linear(96, 32),
        nn.ReLU(),
        nn.Dropout(share),
        nn.Linear(32, 32),
        nn.ReLU(),
        nn.Dropout(share),
        nn.Linear(32, 6),
    )
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3, weight_decay=0.02)
    session = watch(model, optimizer)
    for step, (counts, labels) in enumerate(data.batches(64, 180), 1):
        optimizer.zero_grad()
        outputs = model(counts)
        loss = functional.cross_entropy(outputs, labels)
        loss.backward()
        session.step(loss, inputs=counts, outputs=outputs, targets=labels)
        optimizer.step()
        if step % 36 == 0:
            session.validation(held_out_loss(model, data))
    return accuracy(model, data)
