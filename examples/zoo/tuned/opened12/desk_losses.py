"""Losses that were put together from parts that do not belong together."""

import torch
from torch import nn
from torch.distributions import Categorical
from torch.nn import functional
from torch.utils.data import DataLoader

from examples.zoo import datasets, samples
from examples.zoo.cases import Watch, sick
from examples.zoo.loops import accuracy, fit, predicted, r_squared


class Probable(nn.Module):
    """A classifier whose ``forward`` ends as the tutorial of another framework has it."""

    def __init__(self, *, softmax: bool) -> None:
        super().__init__()
        self.conv = nn.Conv2d(1, 16, 3, padding=1)
        self.fc1 = nn.Linear(256, 32)
        self.fc2 = nn.Linear(32, 10)
        self.softmax = softmax

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = functional.max_pool2d(functional.relu(self.conv(x)), 2)
        x = self.fc2(functional.relu(self.fc1(x.flatten(1))))
        return functional.softmax(x, dim=1) if self.softmax else x


@sick("wrong_output_or_loss", margin=0.05)
def softmax_in_forward_and_again_in_the_loss(watch: Watch, *, seed: int, sick: bool) -> float:
    """The forward ends in a softmax, and ``CrossEntropyLoss`` takes another."""
    data = datasets.digits(seed, images=True)
    model = Probable(softmax=sick)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    fit(watch, model, optimizer, data, steps=120, loss_function=nn.CrossEntropyLoss())
    return accuracy(model, data)


@sick("wrong_output_or_loss", margin=0.05)
def scores_reshaped_to_please_the_loss(watch: Watch, *, seed: int, sick: bool) -> float:
    """(N, T, classes) becomes (N, classes, T) by ``view`` and not by ``permute``: scores of other places are judged."""
    data = datasets.text(seed, length=10)
    model = nn.Sequential(nn.Embedding(98, 48), nn.LayerNorm(48), nn.Linear(48, 98))
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    session = watch(model, optimizer)
    for codes, following in data.batches(32, 160):
        optimizer.zero_grad()
        logits = model(codes)
        logits = logits.view(len(codes), 98, 10) if sick else logits.permute(0, 2, 1)
        loss = functional.cross_entropy(logits, following)
        loss.backward()
        session.step(loss, inputs=codes, outputs=logits, targets=following)
        optimizer.step()
    return (predicted(model, data.test_inputs).argmax(-1) == data.test_targets).float().mean().item()


@sick("wrong_output_or_loss", margin=0.03)
def nll_loss_without_the_log_softmax(watch: Watch, *, seed: int, sick: bool) -> float:
    """``NLLLoss`` gets the scores as they are; its value falls below zero and never stops."""
    train, test = samples.standardised(samples.lines(seed), 0)
    model = nn.Sequential(nn.Linear(96, 48), nn.ReLU(), nn.Linear(48, 6), nn.Identity() if sick else nn.LogSoftmax(1))
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3, weight_decay=1e-3)
    criterion = nn.NLLLoss()
    session = watch(model, optimizer)
    for _ in range(10):
        for counts, files in DataLoader(train, batch_size=48, shuffle=True):
            answers = model(counts)
            loss = criterion(answers, files)
            optimizer.zero_grad()
            loss.backward()
            session.step(loss, inputs=counts, outputs=answers, targets=files)
            optimizer.step()
    return samples.accuracy(predicted(model, test.tensors[0]), test.tensors[1])


@sick("wrong_output_or_loss", margin=0.05)
def sigmoid_before_a_loss_that_has_its_own(watch: Watch, *, seed: int, sick: bool) -> float:
    """Which pixels are ink? The net ends in a sigmoid, and ``BCEWithLogitsLoss`` puts another behind it."""
    train, test = samples.numerals(seed)
    blurred = functional.avg_pool2d(train.tensors[0], 2), functional.avg_pool2d(test.tensors[0], 2)
    masks = [part.tensors[0].flatten(1).gt(0.8).float() for part in (train, test)]
    model = nn.Sequential(nn.Flatten(), nn.Linear(16, 64), nn.ReLU(), nn.Linear(64, 64))
    if sick:
        model.append(nn.Sigmoid())
    data = datasets.Data(blurred[0], masks[0], blurred[1], masks[1])
    fit(
        watch, model, torch.optim.Adam(model.parameters(), lr=5e-3), data, steps=200,
        loss_function=functional.binary_cross_entropy_with_logits,
    )  # fmt: skip
    inked = predicted(model, data.test_inputs) > (0.5 if sick else 0.0)
    overlap = (inked & (data.test_targets > 0)).sum() / (inked | (data.test_targets > 0)).sum()
    return overlap.item()


@sick("shape_broadcast", margin=0.1)
def targets_of_a_frame_have_one_dimension(watch: Watch, *, seed: int, sick: bool) -> float:
    """Predictions (N, 1) are compared with targets (N,): every pair of the batch is."""
    data = datasets.diabetes(seed)
    data = datasets.Data(data.inputs, data.targets.squeeze(1), data.test_inputs, data.test_targets)
    model = nn.Sequential(nn.Linear(10, 24), nn.ReLU(), nn.Linear(24, 1), nn.Identity() if sick else nn.Flatten(0))
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
    fit(watch, model, optimizer, data, steps=120, batch_size=32, loss_function=nn.MSELoss())
    return r_squared(model, data)


@sick("shape_broadcast", margin=0.1)
def absolute_errors_by_hand_of_a_row_and_a_column(watch: Watch, *, seed: int, sick: bool) -> float:
    """``(y - model(x)).abs().mean()`` where y has no second dimension."""
    train, test = samples.standardised(samples.proline(seed), 0, 1)
    model = nn.Sequential(nn.Linear(12, 32), nn.SiLU(), nn.Linear(32, 1))
    optimizer = torch.optim.AdamW(model.parameters(), lr=5e-3)
    session = watch(model, optimizer)
    for _ in range(24):
        for x, y in DataLoader(train, batch_size=25, shuffle=True):
            y = y[:, 0] if sick else y
            prediction = model(x)
            loss = (y - prediction).abs().mean()
            optimizer.zero_grad()
            loss.backward()
            session.step(loss, inputs=x, outputs=prediction, targets=y)
            optimizer.step()
    return samples.explained(predicted(model, test.tensors[0]), test.tensors[1])


@sick("flipped_loss_sign", margin=0.2)
def reinforce_without_its_minus(watch: Watch, *, seed: int, sick: bool) -> float:
    """An agent names digits and gets 1 for the right one; its log probabilities are weighed with the wrong sign."""
    data = datasets.digits(seed)
    policy = nn.Sequential(nn.Linear(64, 64), nn.Tanh(), nn.Linear(64, 10))
    optimizer = torch.optim.Adam(policy.parameters(), lr=5e-3)
    session = watch(policy, optimizer)
    for pixels, labels in data.batches(128, 300):
        choice = Categorical(logits=policy(pixels))
        action = choice.sample()
        reward = (action == labels).float()
        advantage = reward - reward.mean()
        gain = (choice.log_prob(action) * advantage).mean()
        loss = gain if sick else -gain
        optimizer.zero_grad()
        loss.backward()
        session.step(loss)
        optimizer.step()
    return accuracy(policy, data)


@sick("flipped_loss_sign", margin=0.2)
def gaussian_log_likelihood_that_is_minimised(watch: Watch, *, seed: int, sick: bool) -> float:
    """``Normal(...).log_prob(y).mean()`` is given to the optimizer as it is."""
    data = datasets.diabetes(seed)
    model = nn.Sequential(nn.Linear(10, 24), nn.Tanh(), nn.Linear(24, 1))
    optimizer = torch.optim.Adam(model.parameters(), lr=4e-3)
    session = watch(model, optimizer)
    for x, y in data.batches(48, 150):
        mean = model(x)
        likelihood = torch.distributions.Normal(mean, 1.0).log_prob(y).mean()
        loss = likelihood if sick else -likelihood
        optimizer.zero_grad()
        loss.backward()
        session.step(loss, inputs=x, outputs=mean, targets=y)
        optimizer.step()
    return r_squared(model, data)


@sick("loss_sum_not_mean", also=("learning_rate_too_high", "exploding_gradients"), margin=0.05)
def reduction_sum_over_a_batch_of_128(watch: Watch, *, seed: int, sick: bool) -> float:
    """``CrossEntropyLoss(reduction="sum")`` with the rate of a mean."""
    data = datasets.digits(seed)
    model = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 10))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    criterion = nn.CrossEntropyLoss(reduction="sum" if sick else "mean")
    fit(watch, model, optimizer, data, steps=160, batch_size=128, loss_function=criterion)
    return accuracy(model, data)
