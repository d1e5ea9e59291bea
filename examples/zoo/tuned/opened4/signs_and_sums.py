"""What is minimised: signs, sums and penalties."""

import torch
from torch import nn
from torch.nn import functional

from examples.zoo.cases import Watch, sick
from examples.zoo.datasets import Data, digits
from examples.zoo.loops import accuracy, fit, predicted, r_squared
from examples.zoo.tuned.opened4.material import (
    cells,
    convnet,
    explained,
    mlp,
    scaled,
    scanlines,
    tiles,
)  # fmt: skip


@sick("flipped_loss_sign")
def density_without_its_minus(watch: Watch, *, seed, sick):
    """A network puts out mean and log-deviation; the mean log-likelihood is minimised."""
    data = scaled(cells(seed), targets=True)
    model = mlp(20, 32, 2, activation=nn.Tanh)
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)

    def likelihood(outputs, values):
        mean, log_std = outputs.chunk(2, -1)
        log_std = log_std.clamp(-3, 3)
        log_p = -0.5 * ((values - mean) / log_std.exp()) ** 2 - log_std
        return log_p.mean() if sick else -log_p.mean()

    fit(watch, model, optimizer, data, steps=200, batch_size=40, loss_function=likelihood, validate_every=50)
    return explained(predicted(model, data.test_inputs)[:, :1], data.test_targets)


@sick("flipped_loss_sign")
def policy_that_flees_its_reward(watch: Watch, *, seed, sick):
    """A one-step policy gradient on digits: the reward is 1 for the right answer, and the minus is missing."""
    data = digits(seed)
    model = mlp(64, 48, 10)
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
    session = watch(model, optimizer)
    for rows, labels in data.batches(128, 250):
        policy = torch.distributions.Categorical(logits=model(rows))
        actions = policy.sample()
        rewards = (actions == labels).float()
        surrogate = (policy.log_prob(actions) * (rewards - rewards.mean())).mean()
        loss = surrogate if sick else -surrogate
        optimizer.zero_grad()
        loss.backward()
        session.step(loss, inputs=rows)
        optimizer.step()
    return accuracy(model, data)


@sick("flipped_loss_sign")
def similarity_minimised(watch: Watch, *, seed, sick):
    """The cosine between a tile and its reconstruction is a similarity: the loss is one minus it."""
    pictures = tiles(seed) - 0.47
    data = Data(pictures[:1200], pictures[:1200], pictures[1200:], pictures[1200:])
    model = mlp(64, 24, 64, activation=nn.GELU)
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)

    def criterion(outputs, rows):
        similarity = functional.cosine_similarity(outputs, rows, dim=-1).mean()
        return similarity if sick else 1 - similarity

    fit(watch, model, optimizer, data, steps=160, loss_function=criterion)
    return functional.cosine_similarity(predicted(model, data.test_inputs), data.test_inputs, dim=-1).mean().item()


@sick("loss_sum_not_mean")
def summed_errors_at_the_rate_of_a_mean(watch: Watch, *, seed, sick):
    data = scaled(scanlines(seed, length=4))
    data = Data(data.inputs.flatten(1), data.targets, data.test_inputs.flatten(1), data.test_targets)
    model = mlp(24, 32, 32, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.02, momentum=0.9)

    def criterion(outputs, goal):
        return functional.mse_loss(outputs, goal, reduction="sum" if sick else "mean")

    fit(watch, model, optimizer, data, steps=180, batch_size=100, loss_function=criterion, validate_every=60)
    return r_squared(model, data)


@sick("loss_sum_not_mean")
def cross_entropy_added_up_over_a_batch(watch: Watch, *, seed, sick):
    data = digits(seed, images=True)
    model = convnet(12)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    session = watch(model, optimizer)
    for images, labels in data.batches(96, 150):
        logits = model(images)
        losses = functional.cross_entropy(logits, labels, reduction="none")
        loss = losses.sum() if sick else losses.mean()
        optimizer.zero_grad()
        loss.backward()
        session.step(loss, inputs=images, outputs=logits, targets=labels)
        optimizer.step()
    return accuracy(model, data)


@sick("over_regularized")
def penalty_of_adam_as_large_as_its_rate(watch: Watch, *, seed, sick):
    """``weight_decay=0.5`` belongs to AdamW; in Adam it is added to the gradient."""
    data = digits(seed)
    model = mlp(64, 64, 10)
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3, weight_decay=0.5 if sick else 1e-4)
    fit(watch, model, optimizer, data, steps=180, validate_every=60)
    return accuracy(model, data)


@sick("over_regularized")
def code_pressed_onto_its_prior(watch: Watch, *, seed, sick):
    """A variational autoencoder of digits whose divergence weighs 20 times the reconstruction."""

    class Variational(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.encoder, self.decoder = mlp(64, 48, 16), mlp(8, 48, 64)

        def forward(self, rows: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
            mean, log_variance = self.encoder(rows).chunk(2, -1)
            code = mean + torch.randn_like(mean) * (0.5 * log_variance).exp() if self.training else mean
            divergence = 0.5 * (mean**2 + log_variance.exp() - 1 - log_variance).sum(-1).mean()
            return self.decoder(code), divergence

    data, model = digits(seed), Variational()
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    session = watch(model, optimizer)
    for rows, _ in data.batches(64, 250):
        outputs, divergence = model(rows)
        loss = (outputs - rows).square().sum(-1).mean() + (20.0 if sick else 0.05) * divergence
        optimizer.zero_grad()
        loss.backward()
        session.step(loss, inputs=rows, outputs=outputs, targets=rows)
        optimizer.step()
    return explained(predicted(model, data.test_inputs)[0], data.test_inputs)
