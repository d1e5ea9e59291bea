"""Sound trainings whose loss, batches or weights are unlike those of others: digits, tumours and wines."""

import torch
from torch import nn
from torch.nn import functional
from torch.utils.data import DataLoader

from examples.zoo import datasets, samples
from examples.zoo.cases import Watch, healthy
from examples.zoo.loops import accuracy


@healthy(at_least=0.5)
def a_table_of_factors(watch: Watch, *, seed: int) -> float:
    """Digits times pixels as a product of two sparse tables: few rows have a gradient in a step. Quality: R²."""
    pixels = datasets.digits(seed).test_inputs
    pixels = (pixels - pixels.mean(0))[:200]
    model = nn.ModuleList([nn.Embedding(200, 8, sparse=True), nn.Embedding(64, 8, sparse=True)])
    optimizer = torch.optim.SparseAdam(list(model.parameters()), lr=0.05)
    for table in model:
        nn.init.normal_(table.weight, std=0.3)  # type: ignore[arg-type]
    session = watch(model, optimizer)
    for _ in range(300):
        rows, columns = torch.randint(200, (512,)), torch.randint(64, (512,))
        outputs = (model[0](rows) * model[1](columns)).sum(1)
        loss = functional.mse_loss(outputs, pixels[rows, columns])
        optimizer.zero_grad()
        loss.backward()
        session.step(loss, inputs=torch.stack([rows, columns], 1), outputs=outputs, targets=pixels[rows, columns])
        optimizer.step()
    with torch.no_grad():
        return samples.explained(model[0].weight @ model[1].weight.T, pixels)


@healthy(at_least=0.92)
def selu_and_alpha_dropout(watch: Watch, *, seed: int) -> float:
    """A self-normalising net of seven layers without a norm, with LeCun's weights and alpha dropout."""
    train, test = samples.numerals(seed)
    layers: list[nn.Module] = [nn.Flatten()]
    for _ in range(6):
        layers += [nn.Linear(64, 64), nn.SELU(), nn.AlphaDropout(0.02)]
    model = nn.Sequential(*layers, nn.Linear(64, 10))
    for layer in model:
        if isinstance(layer, nn.Linear):
            nn.init.kaiming_normal_(layer.weight, nonlinearity="linear")
            nn.init.zeros_(layer.bias)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    session = watch(model, optimizer)
    for _ in range(8):
        for images, labels in DataLoader(train, 40, shuffle=True):
            outputs = model(images)
            loss = functional.cross_entropy(outputs, labels)
            optimizer.zero_grad()
            loss.backward()
            session.step(loss, inputs=images, outputs=outputs, targets=labels)
            optimizer.step()
    model.eval()
    with torch.no_grad():
        return samples.accuracy(model(test.tensors[0]), test.tensors[1])


@healthy(at_least=0.75)
def attacked_in_every_step(watch: Watch, *, seed: int) -> float:
    """Adversarial training: each batch is first moved against the net. Quality: accuracy on digits moved likewise."""
    data = datasets.digits(seed)
    model = nn.Sequential(nn.Linear(64, 96), nn.ReLU(), nn.Linear(96, 10))
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    session = watch(model, optimizer)

    def moved(inputs: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        inputs = inputs.clone().requires_grad_()
        (slope,) = torch.autograd.grad(functional.cross_entropy(model(inputs), labels), inputs)
        return (inputs + 0.06 * slope.sign()).detach()

    for inputs, labels in data.batches(64, 250):
        shown = moved(inputs, labels)
        outputs = model(shown)
        loss = functional.cross_entropy(outputs, labels)
        optimizer.zero_grad()
        loss.backward()
        session.step(loss, inputs=shown, outputs=outputs, targets=labels)
        optimizer.step()
    shown = moved(data.test_inputs, data.test_targets)
    with torch.no_grad():
        return (model(shown).argmax(1) == data.test_targets).float().mean().item()


@healthy(at_least=0.7)
def the_order_of_survival(watch: Watch, *, seed: int) -> float:
    """Cox's partial likelihood: each loss is of a whole batch, in order of radius. Quality: share of pairs in order."""
    train, test = samples.standardised(samples.tumours(seed), 0)
    model = nn.Sequential(nn.Linear(10, 16), nn.Tanh(), nn.Linear(16, 1))
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    session = watch(model, optimizer)
    for _ in range(12):
        for inputs, worst in DataLoader(train, 32, shuffle=True):
            outputs = model(inputs)[:, 0]
            ordered = outputs[worst[:, 0].argsort(descending=True)]
            loss = (ordered.logcumsumexp(0) - ordered).mean()
            optimizer.zero_grad()
            loss.backward()
            session.step(loss, inputs=inputs, outputs=outputs, targets=worst[:, 0])
            optimizer.step()
    with torch.no_grad():
        risks, times = model(test.tensors[0])[:, 0], test.tensors[1][:, 0]
    later = times[:, None] > times[None]
    return (risks[:, None] < risks[None])[later].float().mean().item()


@healthy(at_least=0.93)
def scores_by_angles(watch: Watch, *, seed: int) -> float:
    """Cosines of features and classes at a fixed temperature of 0.1, and a margin for the right class."""
    data = datasets.digits(seed)
    model = nn.ModuleDict({
        "body": nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 24)),
        "classes": nn.Linear(24, 10, bias=False),
    })  # fmt: skip
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    session = watch(model, optimizer)

    def cosines(inputs: torch.Tensor) -> torch.Tensor:
        features = functional.normalize(model["body"](inputs))
        return features @ functional.normalize(model["classes"].weight).T

    for inputs, labels in data.batches(64, 250):
        outputs = (cosines(inputs) - 0.2 * functional.one_hot(labels, 10)) / 0.1
        loss = functional.cross_entropy(outputs, labels)
        optimizer.zero_grad()
        loss.backward()
        session.step(loss, inputs=inputs, outputs=outputs, targets=labels)
        optimizer.step()
    with torch.no_grad():
        return (cosines(data.test_inputs).argmax(1) == data.test_targets).float().mean().item()


@healthy(at_least=0.8)
def counts_by_poisson(watch: Watch, *, seed: int) -> float:
    """How many of the lower pixels have ink? Poisson's loss of whole counts, below zero from early on."""
    train, test = samples.halves(seed)
    model = nn.Sequential(nn.Linear(32, 48), nn.ReLU(), nn.Linear(48, 1))
    nn.init.constant_(model[2].bias, 2.7)  # type: ignore[arg-type]
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    session = watch(model, optimizer)
    for _ in range(9):
        for upper, lower in DataLoader(train, 40, shuffle=True):
            counts = (lower > 0.3).float().sum(1, keepdim=True)
            outputs = model(upper)
            loss = functional.poisson_nll_loss(outputs, counts)
            optimizer.zero_grad()
            loss.backward()
            session.step(loss, inputs=upper, outputs=outputs, targets=counts)
            optimizer.step()
    with torch.no_grad():
        counts = (test.tensors[1] > 0.3).float().sum(1, keepdim=True)
        return 1 - ((model(test.tensors[0]).exp() - counts).abs() / counts).mean().item()


@healthy(at_least=0.9)
def rprop_on_all_rows(watch: Watch, *, seed: int) -> float:
    """Rprop looks at signs alone, on the whole table in each step: a weight's step ignores how large its slope is."""
    data = datasets.breast_cancer(seed)
    model = nn.Sequential(nn.Linear(30, 8), nn.Tanh(), nn.Linear(8, 2))
    optimizer = torch.optim.Rprop(model.parameters(), lr=1e-3, step_sizes=(1e-6, 0.02))
    session = watch(model, optimizer)
    for _ in range(60):
        optimizer.zero_grad()
        outputs = model(data.inputs)
        loss = functional.cross_entropy(outputs, data.targets, label_smoothing=0.1)
        loss.backward()
        session.step(loss, inputs=data.inputs, outputs=outputs, targets=data.targets)
        optimizer.step()
    return accuracy(model, data)
