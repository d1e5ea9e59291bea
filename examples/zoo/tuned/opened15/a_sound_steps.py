"""Sound trainings with steps of an unusual kind: two gradients a step, closures, averages, uneven sums."""

import copy

import torch
from torch import nn
from torch.nn import functional
from torch.utils.data import DataLoader

from examples.zoo import datasets, samples
from examples.zoo.cases import Watch, healthy
from examples.zoo.loops import accuracy, binary_accuracy, predicted, r_squared


@healthy(at_least=0.9)
def sharpness_aware_steps(watch: Watch, *, seed: int) -> float:
    """SAM: weights climb along the gradient, a second gradient is taken there, and the step is made from below."""
    data = datasets.digits(seed)
    model = nn.Sequential(nn.Linear(64, 48), nn.ReLU(), nn.Linear(48, 10))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    session = watch(model, optimizer)
    for images, labels in data.batches(64, 220):
        optimizer.zero_grad()
        functional.cross_entropy(model(images), labels).backward()
        with torch.no_grad():
            size = torch.stack([one.grad.norm() for one in model.parameters() if one.grad is not None]).norm()
            climbs = [0.05 * one.grad / (size + 1e-12) for one in model.parameters() if one.grad is not None]
            torch._foreach_add_(list(model.parameters()), climbs)
        optimizer.zero_grad()
        logits = model(images)
        loss = functional.cross_entropy(logits, labels)
        loss.backward()
        with torch.no_grad():
            torch._foreach_sub_(list(model.parameters()), climbs)
        session.step(loss, inputs=images, outputs=logits, targets=labels)
        optimizer.step()
    return accuracy(model, data)


@healthy(at_least=0.4)
def sentences_of_many_lengths_weighed_by_their_characters(watch: Watch, *, seed: int) -> float:
    """Micro-batches of uneven texts: each loss is a sum, and the sum of all is divided by the number of characters."""
    data = datasets.text(seed, length=32, count=2400)
    embed, rnn = nn.Embedding(datasets.CHARACTERS, 32), nn.GRU(32, 64, batch_first=True)
    head = nn.Linear(64, datasets.CHARACTERS)
    model = nn.ModuleDict({"embed": embed, "rnn": rnn, "head": head})
    optimizer = torch.optim.AdamW(model.parameters(), lr=8e-3)
    session, count, total = watch(model, optimizer), 0, 0.0
    for number, (codes, following) in enumerate(data.batches(12, 3 * 130), 1):
        length = int(torch.randint(6, 33, ()))
        logits = head(rnn(embed(codes[:, :length]))[0]).flatten(0, 1)
        targets = following[:, :length].flatten()
        loss = functional.cross_entropy(logits, targets, reduction="sum")
        loss.backward()
        count, total = count + len(targets), total + loss.item()
        if number % 3 == 0:
            for parameter in model.parameters():
                if parameter.grad is not None:
                    parameter.grad /= count
            session.step(total / count, inputs=codes, outputs=logits, targets=targets)
            optimizer.step()
            optimizer.zero_grad()
            count, total = 0, 0.0
    with torch.no_grad():
        found = head(rnn(embed(data.test_inputs))[0]).argmax(-1)
    return (found == data.test_targets).float().mean().item()


@healthy(at_least=0.9)
def autocast_to_bfloat16_with_an_average(watch: Watch, *, seed: int) -> float:
    """The forward pass is in bfloat16, and a slow average of the weights, which never has a gradient, is judged."""
    train, test = samples.numerals(seed)
    model = nn.Sequential(nn.Conv2d(1, 16, 3), nn.GroupNorm(4, 16), nn.ReLU(), nn.Flatten(), nn.Linear(576, 10))
    slow = copy.deepcopy(model).requires_grad_(False)
    optimizer = torch.optim.AdamW(model.parameters(), lr=4e-3)
    session = watch(model, optimizer)
    for _ in range(8):
        for images, labels in DataLoader(train, batch_size=48, shuffle=True):
            with torch.autocast("cpu", torch.bfloat16):
                logits = model(images)
            loss = functional.cross_entropy(logits.float(), labels)
            optimizer.zero_grad()
            loss.backward()
            session.step(loss, inputs=images, outputs=logits, targets=labels)
            optimizer.step()
            with torch.no_grad():
                for kept, new in zip(slow.parameters(), model.parameters(), strict=True):
                    kept.lerp_(new, 0.05)
    return samples.accuracy(predicted(slow, test.tensors[0]), test.tensors[1])


@healthy(at_least=0.6)
def looking_ahead_and_going_back(watch: Watch, *, seed: int) -> float:
    """Lookahead: after every six steps the weights go back half of the way that they have come."""
    train, test = samples.lines(seed)
    model = nn.Sequential(nn.Linear(96, 64), nn.ReLU(), nn.Dropout(0.2), nn.Linear(64, len(samples.FILES)))
    optimizer = torch.optim.RAdam(model.parameters(), lr=6e-3)
    session, step = watch(model, optimizer), 0
    anchor = copy.deepcopy(model.state_dict())
    for _ in range(14):
        for counts, labels in DataLoader(train, batch_size=64, shuffle=True):
            logits = model(counts.sqrt())
            loss = functional.cross_entropy(logits, labels)
            optimizer.zero_grad()
            loss.backward()
            session.step(loss, inputs=counts, outputs=logits, targets=labels)
            optimizer.step()
            step += 1
            if step % 6 == 0:
                anchor = {name: torch.lerp(anchor[name], new, 0.5) for name, new in model.state_dict().items()}
                model.load_state_dict(anchor)
    return samples.accuracy(predicted(model, test.tensors[0].sqrt()), test.tensors[1])


@healthy(at_least=0.3)
def whole_units_with_a_bias_at_their_mean(watch: Watch, *, seed: int) -> float:
    """Illness in whole units: losses in the thousands, with a last bias at the mean and a rate that fits."""
    data = datasets.diabetes(seed, raw_targets=True)
    body, head = nn.Linear(10, 16), nn.Linear(16, 1)
    model = nn.Sequential(body, nn.Tanh(), head)
    nn.init.constant_(head.bias, data.targets.mean().item())
    groups = [{"params": body.parameters(), "lr": 5e-3}, {"params": head.parameters(), "lr": 0.5}]
    optimizer = torch.optim.Adam(groups)
    session = watch(model, optimizer)
    for patients, illness in data.batches(66, 120):
        outputs = model(patients)
        loss = functional.mse_loss(outputs, illness)
        optimizer.zero_grad()
        loss.backward()
        session.step(loss, inputs=patients, outputs=outputs, targets=illness)
        optimizer.step()
    return r_squared(model, data)


@healthy(at_least=0.9)
def a_ranking_of_pairs_alone(watch: Watch, *, seed: int) -> float:
    """A score is learned from pairs, of which one is benign: no label is ever told, and the loss goes to zero."""
    data = datasets.breast_cancer(seed)
    malignant, benign = (data.inputs[data.targets == label] for label in (0, 1))
    model = nn.Sequential(nn.Linear(30, 12), nn.Tanh(), nn.Dropout(0.1), nn.Linear(12, 1, bias=False))
    optimizer = torch.optim.Adagrad(model.parameters(), lr=0.02, weight_decay=1e-3)
    session = watch(model, optimizer)
    for _ in range(150):
        bad = malignant[torch.randint(len(malignant), (40,))]
        good = benign[torch.randint(len(benign), (40,))]
        scores = model(torch.cat([bad, good])).squeeze(1)
        loss = functional.softplus(scores[:40] - scores[40:]).mean()
        optimizer.zero_grad()
        loss.backward()
        session.step(loss, inputs=torch.cat([bad, good]), outputs=scores)
        optimizer.step()
    scores = predicted(model, data.test_inputs).squeeze(1)
    bad, good = scores[data.test_targets == 0], scores[data.test_targets == 1]
    return (bad[:, None] < good[None]).float().mean().item()


@healthy(at_least=0.9)
def steps_that_take_several_closures(watch: Watch, *, seed: int) -> float:
    """L-BFGS on the whole table: each step takes several closures, and a step's loss is that of its first one."""
    data = datasets.breast_cancer(seed)
    model = nn.Linear(30, 1)
    nn.init.zeros_(model.weight)
    optimizer = torch.optim.LBFGS(model.parameters(), lr=0.1, max_iter=2, history_size=5)
    session = watch(model, optimizer)
    labels = data.targets.float()[:, None]

    def closure() -> torch.Tensor:
        optimizer.zero_grad()
        loss = functional.binary_cross_entropy_with_logits(model(data.inputs), labels)
        loss = loss + 0.02 * model.weight.square().sum()
        loss.backward()
        return loss

    for _ in range(60):
        loss = closure()
        session.step(loss, inputs=data.inputs, targets=labels)
        optimizer.step(closure)
    return binary_accuracy(model, data)
