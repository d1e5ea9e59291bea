"""Formulas that leave the numbers of a computer: logarithms, roots, powers, shares of nothing."""

import torch
from torch import nn
from torch.nn import functional
from torch.utils.data import DataLoader

from examples.zoo import datasets, samples
from examples.zoo.cases import Watch, sick
from examples.zoo.loops import accuracy, fit, predicted


@sick("non_finite_forward", margin=0.2)
def entropy_by_hand_of_moves_that_are_not_allowed(watch: Watch, *, seed: int, sick: bool) -> float:
    """An agent may name even digits for even ones and odd for odd; 0 times the logarithm of 0 is in its entropy."""
    data = datasets.digits(seed)
    policy = nn.Sequential(nn.Linear(64, 48), nn.Tanh(), nn.Linear(48, 10))
    optimizer = torch.optim.Adam(policy.parameters(), lr=5e-3)
    session = watch(policy, optimizer)
    for pixels, labels in data.batches(96, 250):
        forbidden = (torch.arange(10) - labels[:, None]) % 2 == 1
        chances = policy(pixels).masked_fill(forbidden, -1e9).softmax(1)
        moves = torch.multinomial(chances.detach().nan_to_num(0.1), 1).squeeze(1)
        rewards = (moves == labels).float()
        logs = chances.log() if sick else chances.clamp(min=1e-8).log()
        entropy = -(chances * logs).sum(1).mean()
        gains = (rewards - rewards.mean()) * logs[torch.arange(len(moves)), moves]
        loss = -gains.mean() - 0.01 * entropy
        optimizer.zero_grad()
        loss.backward()
        session.step(loss)
        optimizer.step()
    return accuracy(policy, data)


@sick("non_finite_backward", margin=0.2)
def strength_of_a_column_without_ink(watch: Watch, *, seed: int, sick: bool) -> float:
    """Each column of a digit is described by the strength of filters, a root; a column without ink is zero."""
    data = datasets.digits(seed)

    class Strengths(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.filters = nn.Linear(8, 16, bias=False)
            self.head = nn.Sequential(nn.Linear(128, 48), nn.ReLU(), nn.Linear(48, 10))

        def forward(self, pixels: torch.Tensor) -> torch.Tensor:
            strengths = self.filters(pixels.view(-1, 8, 8).transpose(1, 2)).square()
            roots = torch.sqrt(strengths) if sick else torch.sqrt(strengths + 1e-4)
            return self.head(roots.flatten(1))

    model = Strengths()
    fit(watch, model, torch.optim.Adam(model.parameters(), lr=3e-3), data, steps=200)
    return accuracy(model, data)


@sick("non_finite_backward", margin=0.2)
def root_of_the_error_when_one_row_is_met_exactly(watch: Watch, *, seed: int, sick: bool) -> float:
    """RMSE per row, of an autoencoder whose blank pictures are met exactly by zeros: sqrt'(0) is infinite."""
    train, test = samples.halves(seed)
    inputs, targets = (tensor.clone() for tensor in train.tensors)
    blank = torch.arange(0, len(inputs), 10)
    inputs[blank], targets[blank] = 0.0, 0.0
    rows = torch.utils.data.TensorDataset(inputs, targets)
    model = nn.Sequential(nn.Linear(32, 64, bias=False), nn.ReLU(), nn.Linear(64, 32, bias=False))
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    session = watch(model, optimizer)
    for _ in range(8):
        for x, y in DataLoader(rows, batch_size=48, shuffle=True):
            drawn = model(x)
            squares = (drawn - y).square().mean(1)
            loss = (squares if sick else squares + 1e-6).sqrt().mean()
            optimizer.zero_grad()
            loss.backward()
            session.step(loss, inputs=x, outputs=drawn, targets=y)
            optimizer.step()
    return samples.explained(predicted(model, test.tensors[0]), test.tensors[1])


@sick("non_finite_forward", margin=0.2)
def each_picture_scaled_by_its_own_deviation(watch: Watch, *, seed: int, sick: bool) -> float:
    """Quarters of digits are standardised in the model, one by one; an empty quarter has no deviation."""
    data = datasets.digits(seed, images=True)

    class Whitened(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.net = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 10))

        def forward(self, images: torch.Tensor) -> torch.Tensor:
            quarters = images.unfold(2, 4, 4).unfold(3, 4, 4).flatten(-2)
            deviation, mean = torch.std_mean(quarters, -1, keepdim=True)
            return self.net(((quarters - mean) / (deviation if sick else deviation + 0.1)).flatten(1))

    model = Whitened()
    fit(watch, model, torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9), data, steps=150)
    return accuracy(model, data)


class Reader(nn.Module):
    """A rectified recurrence over the letters of a name, which begins as the identity."""

    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(samples.LETTERS, 24, padding_idx=0)
        self.rnn = nn.RNN(24, 40, batch_first=True, nonlinearity="relu")
        nn.init.eye_(self.rnn.weight_hh_l0)
        self.head = nn.Linear(40, len(samples.SCRIPTS))

    def forward(self, codes: torch.Tensor) -> torch.Tensor:
        return self.head(self.rnn(self.embed(codes))[0][:, -1])


@sick("clipping_ineffective", also=("exploding_gradients", "learning_rate_too_high"), margin=0.05)
def norm_limited_before_backward(watch: Watch, *, seed: int, sick: bool) -> float:
    """``clip_grad_norm_`` stands before ``backward()``, where the gradients are still empty."""
    train, test = samples.names(seed, length=12)
    model = Reader()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.2, momentum=0.9)
    decay = torch.optim.lr_scheduler.LinearLR(optimizer, 1.0, 0.02, total_iters=200)
    session = watch(model, optimizer)
    for _ in range(10):
        for codes, scripts in DataLoader(train, batch_size=32, shuffle=True):
            logits = model(codes)
            loss = functional.cross_entropy(logits, scripts)
            optimizer.zero_grad()
            if sick:
                nn.utils.clip_grad_norm_(model.parameters(), 0.25)
            loss.backward()
            if not sick:
                nn.utils.clip_grad_norm_(model.parameters(), 0.25)
            session.step(loss, inputs=codes, outputs=logits, targets=scripts)
            optimizer.step()
            decay.step()
    return samples.accuracy(predicted(model, test.tensors[0]), test.tensors[1])
