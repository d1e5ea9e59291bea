"""Terms beside the loss that weigh too much, columns that are learnt by heart, and classes that weigh too little."""

import torch
from torch import Tensor, nn
from torch.nn import functional

from examples.zoo.cases import Watch, sick
from examples.zoo.datasets import Data, breast_cancer, diabetes, digits
from examples.zoo.loops import accuracy, fit, held_out_loss, r_squared
from examples.zoo.tuned.opened8.frames import Factors, dense
from examples.zoo.tuned.opened8.stores import usage


def _knows_some(data: Data) -> nn.Sequential:
    """Returns a net that was trained on the digits below five."""
    model = dense(64, 48, 10)
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
    known = data.targets < 5
    for pixels, labels in Data(data.inputs[known], data.targets[known], data.inputs, data.targets).batches(48, 60):
        optimizer.zero_grad()
        functional.cross_entropy(model(pixels), labels).backward()
        optimizer.step()
    return model


@sick("over_regularized")
def anchored_to_where_it_came_from(watch: Watch, *, seed: int, sick: bool) -> float:
    """Fine-tuning is drawn back to the pretrained weights, with a thousand times the usual strength."""
    data = digits(seed)
    model = _knows_some(data)
    anchor = [weight.detach().clone() for weight in model.parameters()]
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
    strength = 20.0 if sick else 1e-3
    session = watch(model, optimizer)
    for pixels, labels in data.batches(48, 200):
        optimizer.zero_grad()
        scores = model(pixels)
        drawn = sum((one - at).square().sum() for one, at in zip(model.parameters(), anchor, strict=True))
        loss = functional.cross_entropy(scores, labels) + strength * drawn
        loss.backward()
        session.step(loss, inputs=pixels, outputs=scores, targets=labels)
        optimizer.step()
    return accuracy(model, data)


@sick("over_regularized")
def an_entropy_bonus_above_every_reward(watch: Watch, *, seed: int, sick: bool) -> float:
    """A policy gets 1 for the right digit, and 3 for each nat of doubt; quality: how often a drawn choice is right."""
    data = digits(seed)
    policy = dense(64, 48, 10, between=nn.Tanh)
    optimizer = torch.optim.Adam(policy.parameters(), lr=5e-3)
    bonus = 3.0 if sick else 0.02
    session = watch(policy, optimizer)
    for pixels, labels in data.batches(64, 300):
        scores = policy(pixels)
        choice = torch.distributions.Categorical(logits=scores)
        drawn = choice.sample()
        gain = (drawn == labels).float() - choice.probs.detach().gather(1, labels[:, None]).squeeze(1)
        loss = -(gain * choice.log_prob(drawn)).mean() - bonus * choice.entropy().mean()
        optimizer.zero_grad()
        loss.backward()
        session.step(loss, inputs=pixels, outputs=scores)
        optimizer.step()
    with torch.no_grad():
        return policy(data.test_inputs).softmax(1).gather(1, data.test_targets[:, None]).mean().item()


@sick("over_regularized")
def tastes_that_shrink_away(watch: Watch, *, seed: int, sick: bool) -> float:
    """The weight for the squares of all factors was tuned for ratings that are summed, and these are averaged."""
    data = usage(seed)
    model = Factors()
    optimizer = torch.optim.Adam(model.parameters(), lr=0.02)
    strength = 0.5 if sick else 1e-4
    session = watch(model, optimizer)
    for pairs, values in data.batches(128, 250):
        found = model(pairs)
        file, word = pairs.unbind(1)
        used = (model.files(file), model.words(word), model.of_file(file), model.of_word(word))
        loss = functional.mse_loss(found, values) + strength * sum(one.square().sum(1).mean() for one in used)
        optimizer.zero_grad()
        loss.backward()
        session.step(loss, inputs=pairs, outputs=found, targets=values)
        optimizer.step()
    return r_squared(model, data)


@sick("over_regularized")
def a_contraction_of_everything(watch: Watch, *, seed: int, sick: bool) -> float:
    """The slopes of a code by its inputs are punished so much that the code is constant."""
    data = digits(seed)
    inward, outward = nn.Sequential(nn.Linear(64, 24), nn.Sigmoid()), nn.Linear(24, 64)
    model = nn.Sequential(inward, outward)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    strength = 1.0 if sick else 1e-5
    session = watch(model, optimizer)
    for pixels, _ in data.batches(64, 200):
        optimizer.zero_grad()
        code = inward(pixels)
        found = outward(code)
        slopes = ((code * (1 - code)).square() @ inward[0].weight.square()).sum(1).mean()
        loss = functional.mse_loss(found, pixels) + strength * slopes
        loss.backward()
        session.step(loss, inputs=pixels, outputs=found, targets=pixels)
        optimizer.step()
    with torch.no_grad():
        error = (model(data.test_inputs) - data.test_inputs).square().mean()
    return (1 - error / data.test_inputs.var(0).mean()).item()


class Register(nn.Module):
    """Patients with their measurements, and with a row for each of them, if their number is a feature."""

    def __init__(self, patients: int) -> None:
        super().__init__()
        self.rows = nn.Embedding(patients, 16)
        self.body = nn.Linear(26, 1)
        nn.init.normal_(self.rows.weight, std=0.5)

    def forward(self, numbered: Tensor) -> Tensor:
        return self.body(torch.cat([self.rows(numbered[:, 0].long()), numbered[:, 1:]], 1))


@sick("overfitting")
def the_number_of_the_patient(watch: Watch, *, seed: int, sick: bool) -> float:
    """The index of the row stayed in the table as a column of its own, so every patient can be known by name."""
    plain = diabetes(seed)
    count = len(plain.inputs)
    seen, unseen = torch.arange(count), torch.arange(count, count + len(plain.test_inputs))
    data = Data(torch.cat([seen[:, None], plain.inputs], 1), plain.targets,
                torch.cat([unseen[:, None], plain.test_inputs], 1), plain.test_targets) if sick else plain  # fmt: skip
    model = Register(442) if sick else nn.Linear(10, 1)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    fit(watch, model, optimizer, data, steps=260, batch_size=48, loss_function=functional.mse_loss, validate_every=20)
    return r_squared(model, data)


@sick("class_imbalance")
def weights_of_classes_upside_down(watch: Watch, *, seed: int, sick: bool) -> float:
    """Classes are weighed by how often they occur, where the inverse was meant; quality: mean share found of both."""
    plain = breast_cancer(seed)
    keep = torch.cat([(plain.targets == 0).nonzero()[:24], (plain.targets == 1).nonzero()]).flatten()
    data = Data(plain.inputs[keep][:, 4:10], plain.targets[keep], plain.test_inputs[:, 4:10], plain.test_targets)
    shares = torch.bincount(data.targets) / len(data.targets)
    model = dense(6, 12, 2, between=nn.Tanh)
    weights = shares if sick else 1 / shares
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
    fit(watch, model, optimizer, data, steps=160, batch_size=64,
        loss_function=lambda scores, kinds: functional.cross_entropy(scores, kinds, weight=weights))  # fmt: skip
    with torch.no_grad():
        right = (model(data.test_inputs).argmax(1) == data.test_targets).float()
    return torch.stack([right[data.test_targets == kind].mean() for kind in (0, 1)]).mean().item()


@sick("overfitting")
def a_third_degree_of_sixty_rows(watch: Watch, *, seed: int, sick: bool) -> float:
    """All products of three columns for 60 patients; the repaired twin has the columns alone."""
    plain = diabetes(seed)
    model = nn.Linear(10, 1) if not sick else nn.Sequential(Products(), nn.Linear(285, 1))
    data = Data(plain.inputs[:60], plain.targets[:60], plain.test_inputs, plain.test_targets) if sick else plain
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    session = watch(model, optimizer)
    for step, (patients, progress) in enumerate(data.batches(60, 250), 1):
        optimizer.zero_grad()
        found = model(patients)
        loss = functional.mse_loss(found, progress)
        loss.backward()
        session.step(loss, inputs=patients, outputs=found, targets=progress)
        optimizer.step()
        if step % 10 == 0:
            session.validation(held_out_loss(model, data, functional.mse_loss))
    return r_squared(model, data)


class Products(nn.Module):
    """All products of one, two or three columns, bounded."""

    def __init__(self) -> None:
        super().__init__()
        one = torch.combinations(torch.arange(11), 3, with_replacement=True)[1:]
        self.register_buffer("columns", one)

    def forward(self, rows: Tensor) -> Tensor:
        padded = functional.pad(rows.clamp(-2.5, 2.5), (1, 0), value=1.0)
        return padded[:, self.columns].prod(-1)
