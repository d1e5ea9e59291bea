"""Sound trainings that look sick: what is odd about them is meant."""

import copy

import torch
from torch import nn
from torch.nn import functional

from examples.zoo import datasets
from examples.zoo.cases import Watch, healthy
from examples.zoo.datasets import Data
from examples.zoo.loops import accuracy, fit, held_out_loss, predicted, r_squared


@healthy(at_least=0.5)
def generative_adversarial(watch: Watch, *, seed: int) -> float:
    """Two nets against each other on pairs of features: their losses go up and down and say little."""
    real = datasets.iris(seed).inputs[:, 2:]
    generator = nn.Sequential(nn.Linear(4, 24), nn.ReLU(), nn.Linear(24, 2))
    critic = nn.Sequential(nn.Linear(2, 24), nn.LeakyReLU(0.2), nn.Linear(24, 1))
    of_generator = torch.optim.Adam(generator.parameters(), lr=3e-3, betas=(0.5, 0.99))
    of_critic = torch.optim.Adam(critic.parameters(), lr=3e-3, betas=(0.5, 0.99))
    generating, judging = watch(generator, of_generator), watch(critic, of_critic)
    for _ in range(300):
        noise = torch.randn(32, 4)
        true = real[torch.randint(len(real), (32,))]
        made = generator(noise)
        loss = functional.softplus(-critic(true)).mean() + functional.softplus(critic(made.detach())).mean()
        of_critic.zero_grad()
        loss.backward()
        judging.step(loss)
        of_critic.step()
        loss = functional.softplus(-critic(made)).mean()
        of_generator.zero_grad()
        loss.backward()
        generating.step(loss, inputs=noise, outputs=made)
        of_generator.step()
    with torch.no_grad():
        made = generator(torch.randn(500, 4))
    return 1 - (made.mean(0) - real.mean(0)).abs().max().item()


@healthy(at_least=0.3)
def variational_autoencoder(watch: Watch, *, seed: int) -> float:
    """The divergence of the code starts near zero and rises, while the sum of both losses falls."""
    data = datasets.digits(seed)
    encoder = nn.Sequential(nn.Linear(64, 48), nn.ReLU(), nn.Linear(48, 16))
    decoder = nn.Sequential(nn.Linear(8, 48), nn.ReLU(), nn.Linear(48, 64))
    model = nn.ModuleDict({"encoder": encoder, "decoder": decoder})
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    session = watch(model, optimizer)
    for inputs, _ in data.batches(64, 200):
        mean, log_variance = encoder(inputs).chunk(2, 1)
        code = mean + torch.randn_like(mean) * (0.5 * log_variance).exp()
        outputs = decoder(code)
        divergence = 0.5 * (mean**2 + log_variance.exp() - 1 - log_variance).sum(1).mean()
        loss = functional.mse_loss(outputs, inputs, reduction="none").sum(1).mean() + 0.1 * divergence
        optimizer.zero_grad()
        loss.backward()
        session.step(loss, inputs=inputs, outputs=outputs, targets=inputs)
        optimizer.step()
    with torch.no_grad():
        outputs = decoder(encoder(data.test_inputs)[:, :8])
    return 1 - (functional.mse_loss(outputs, data.test_inputs) / data.test_inputs.var(0).mean()).item()


class _Experts(nn.Module):
    """Eight experts, of which each sample uses the one that the gate prefers; some are used by none."""

    def __init__(self) -> None:
        super().__init__()
        self.gate = nn.Linear(64, 8)
        self.experts = nn.ModuleList(nn.Sequential(nn.Linear(64, 24), nn.ReLU(), nn.Linear(24, 10)) for _ in range(8))

    def forward(self, values: torch.Tensor) -> torch.Tensor:
        weight, chosen = self.gate(values).softmax(1).max(1)
        outputs = values.new_zeros(len(values), 10)
        for number, expert in enumerate(self.experts):
            rows = (chosen == number).nonzero()[:, 0]
            if len(rows):
                outputs = outputs.index_add(0, rows, expert(values[rows]))
        return outputs * weight[:, None] * 4


@healthy(at_least=0.8)
def mixture_of_experts(watch: Watch, *, seed: int) -> float:
    """Experts that no sample chose have no gradient in a step."""
    data = datasets.digits(seed)
    model = _Experts()
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
    fit(watch, model, optimizer, data, steps=200, batch_size=48)
    return accuracy(model, data)


@healthy(at_least=0.6)
def sparse_autoencoder(watch: Watch, *, seed: int) -> float:
    """Most hidden units are zero for most inputs: a penalty asks for it."""
    data = datasets.digits(seed)
    encoder, decoder = nn.Sequential(nn.Linear(64, 128), nn.ReLU()), nn.Linear(128, 64)
    model = nn.Sequential(encoder, decoder)
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    session = watch(model, optimizer)
    for inputs, _ in data.batches(64, 250):
        hidden = encoder(inputs)
        outputs = decoder(hidden)
        loss = functional.mse_loss(outputs, inputs) + 2e-3 * hidden.abs().mean()
        optimizer.zero_grad()
        loss.backward()
        session.step(loss, inputs=inputs, outputs=outputs, targets=inputs)
        optimizer.step()
    outputs = predicted(model, data.test_inputs)
    return 1 - (functional.mse_loss(outputs, data.test_inputs) / data.test_inputs.var(0).mean()).item()


@healthy(at_least=0.5)
def policy_gradient(watch: Watch, *, seed: int) -> float:
    """REINFORCE: which digit is shown pays when it is named; the loss is no measure of anything and may rise."""
    data = datasets.digits(seed)
    model = nn.Sequential(nn.Linear(64, 48), nn.Tanh(), nn.Linear(48, 10))
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
    session, expected = watch(model, optimizer), 0.1
    for states, answers in data.batches(64, 400):
        policy = torch.distributions.Categorical(logits=model(states))
        actions = policy.sample()
        rewards = (actions == answers).float()
        loss = -((rewards - expected) * policy.log_prob(actions)).mean()
        optimizer.zero_grad()
        loss.backward()
        session.step(loss, inputs=states)
        optimizer.step()
        expected = 0.95 * expected + 0.05 * rewards.mean().item()
    return accuracy(model, data)


class _Tied(nn.Module):
    """The embedding is the head's weight, too."""

    def __init__(self, width: int = 32) -> None:
        super().__init__()
        self.embedding = nn.Embedding(datasets.CHARACTERS, width)
        nn.init.normal_(self.embedding.weight, std=0.1)
        self.cell = nn.GRU(width, width, batch_first=True)
        self.head = nn.Linear(width, datasets.CHARACTERS)
        self.head.weight = self.embedding.weight

    def forward(self, codes: torch.Tensor) -> torch.Tensor:
        states, _ = self.cell(self.embedding(codes))
        return self.head(states)


@healthy(at_least=0.35)
def tied_weights(watch: Watch, *, seed: int) -> float:
    """Characters, with one matrix at both ends of the model."""
    data = datasets.text(seed, length=16)
    model = _Tied()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)

    def loss_function(logits: torch.Tensor, codes: torch.Tensor) -> torch.Tensor:
        return functional.cross_entropy(logits.flatten(0, 1), codes.flatten())

    fit(watch, model, optimizer, data, steps=180, batch_size=32, loss_function=loss_function)
    return accuracy(model, data)


@healthy(at_least=0.85)
def accumulated_and_averaged(watch: Watch, *, seed: int) -> float:
    """Four micro-batches a step, each loss divided by four."""
    data = datasets.digits(seed)
    model = nn.Sequential(nn.Linear(64, 48), nn.ReLU(), nn.Linear(48, 10))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    session = watch(model, optimizer)
    for number, (inputs, labels) in enumerate(data.batches(16, 4 * 120), 1):
        outputs = model(inputs)
        loss = functional.cross_entropy(outputs, labels)
        (loss / 4).backward()
        if number % 4 == 0:
            session.step(loss, inputs=inputs, outputs=outputs, targets=labels)
            optimizer.step()
            optimizer.zero_grad()
    return accuracy(model, data)


@healthy(at_least=0.85)
def first_steps_skipped_by_a_scaler(watch: Watch, *, seed: int) -> float:
    """A GradScaler begins with a scale that is too large for float16 and skips steps until it fits."""
    data = datasets.digits(seed)
    model = nn.Sequential(nn.Linear(64, 48), nn.ReLU(), nn.Linear(48, 10))
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    scaler = torch.amp.GradScaler("cpu", init_scale=2.0**22)
    session = watch(model, optimizer, scaler=scaler)
    for inputs, labels in data.batches(64, 150):
        optimizer.zero_grad()
        with torch.autocast("cpu", torch.float16):
            outputs = model(inputs)
            loss = functional.cross_entropy(outputs, labels)
        scaler.scale(loss).backward()
        session.step(loss, inputs=inputs, outputs=outputs, targets=labels)
        scaler.step(optimizer)
        scaler.update()
    return accuracy(model, data)


@healthy(at_least=0.7)
def embeddings_with_padding(watch: Watch, *, seed: int) -> float:
    """Lines of different lengths: the padding's embedding is zero and stays so, most rows have no gradient."""
    text = datasets.text(seed, length=20)

    def cut(codes: torch.Tensor) -> torch.Tensor:
        return codes.masked_fill(torch.arange(20) >= 4 + codes[:, :1] % 16, datasets.CHARACTERS)

    def has_underscore(codes: torch.Tensor) -> torch.Tensor:
        return (codes == ord("_") - 32).any(1).long()

    inputs, test_inputs = cut(text.inputs), cut(text.test_inputs)
    data = Data(inputs, has_underscore(inputs), test_inputs, has_underscore(test_inputs))
    model = nn.Sequential(
        nn.Embedding(datasets.CHARACTERS + 1, 16, padding_idx=datasets.CHARACTERS), nn.Flatten(), nn.Linear(320, 32),
        nn.ReLU(), nn.Linear(32, 2),
    )  # fmt: skip
    optimizer = torch.optim.AdamW(model.parameters(), lr=5e-3)
    fit(watch, model, optimizer, data, steps=150, batch_size=32)
    return accuracy(model, data)


class _Standardised(nn.Module):
    """A regression that knows the scale of its targets."""

    def __init__(self, targets: torch.Tensor) -> None:
        super().__init__()
        self.net = nn.Sequential(nn.Linear(10, 32), nn.ReLU(), nn.Linear(32, 1))
        self.register_buffer("mean", targets.mean())
        self.register_buffer("std", targets.std())

    def forward(self, values: torch.Tensor) -> torch.Tensor:
        return self.net(values) * self.std + self.mean


@healthy(at_least=0.4)
def huge_targets_standardised_inside(watch: Watch, *, seed: int) -> float:
    """Targets in the hundreds and losses in the thousands; the model brings its output to their scale."""
    data = datasets.diabetes(seed, raw_targets=True)
    model = _Standardised(data.targets)
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
    fit(watch, model, optimizer, data, steps=150, batch_size=32, loss_function=functional.mse_loss, validate_every=50)
    return r_squared(model, data)


@healthy(at_least=0.85)
def average_of_weights_beside(watch: Watch, *, seed: int) -> float:
    """A moving average of the weights, which no gradient reaches and no optimizer has, is what is validated."""
    data = datasets.digits(seed)
    model = nn.Sequential(nn.Linear(64, 48), nn.ReLU(), nn.Linear(48, 10))
    average = copy.deepcopy(model).requires_grad_(False)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    session = watch(model, optimizer)
    for step, (inputs, labels) in enumerate(data.batches(64, 200), 1):
        outputs = model(inputs)
        loss = functional.cross_entropy(outputs, labels)
        optimizer.zero_grad()
        loss.backward()
        session.step(loss, inputs=inputs, outputs=outputs, targets=labels)
        optimizer.step()
        with torch.no_grad():
            for kept, new in zip(average.parameters(), model.parameters(), strict=True):
                kept.lerp_(new, 0.05)
        if step % 50 == 0:
            session.validation(held_out_loss(average, data))
    return accuracy(average, data)


@healthy(at_least=0.85)
def smoothed_labels_and_heavy_dropout(watch: Watch, *, seed: int) -> float:
    """Smoothed labels keep the loss far above zero, and dropout keeps training worse than validation."""
    data = datasets.digits(seed)
    model = nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Dropout(0.5), nn.Linear(128, 10))
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3, weight_decay=0.05)
    criterion = nn.CrossEntropyLoss(label_smoothing=0.1)
    fit(watch, model, optimizer, data, steps=200, loss_function=criterion, validate_every=25)
    return accuracy(model, data)
