"""The order of calls: what a loop forgets, names without calling it, or does twice."""

import torch
from torch import nn
from torch.nn import functional as F  # noqa: N812

from examples.zoo import datasets, samples
from examples.zoo.cases import Watch, sick
from examples.zoo.loops import accuracy, held_out_loss, predicted, r_squared


@sick("gradients_not_zeroed", margin=0.1)
def a_closure_without_zero_grad(watch: Watch, *, seed: int, sick: bool) -> float:
    """The closure of SGD evaluates and goes backward, and nobody has zeroed before."""
    data = datasets.breast_cancer(seed)
    net = nn.Sequential(nn.Linear(30, 20), nn.Tanh(), nn.Linear(20, 2))
    optimizer = torch.optim.SGD(net.parameters(), lr=0.02, momentum=0.9)
    session = watch(net, optimizer)
    for x, y in data.batches(16, 250):

        def closure(x: torch.Tensor = x, y: torch.Tensor = y) -> torch.Tensor:
            if not sick:
                optimizer.zero_grad()
            loss = F.cross_entropy(net(x), y)
            loss.backward()
            return loss

        session.step(closure(), inputs=x, targets=y)
        optimizer.step(closure)  # type: ignore[arg-type]
    return 1 - min(held_out_loss(net, data), 2.0)


@sick("gradients_not_zeroed")
def the_critic_keeps_what_the_generator_left(watch: Watch, *, seed: int, sick: bool) -> float:
    """Only the generator's optimizer is zeroed: the critic also collects what the generator's passes leave in it."""
    random = torch.Generator().manual_seed(seed)
    generator = nn.Sequential(nn.Linear(4, 32), nn.ReLU(), nn.Linear(32, 2))
    critic = nn.Sequential(nn.Linear(2, 32), nn.LeakyReLU(0.2), nn.Linear(32, 1))
    opt_g = torch.optim.Adam(generator.parameters(), lr=1e-3, betas=(0.5, 0.9))
    opt_c = torch.optim.Adam(critic.parameters(), lr=2e-3, betas=(0.5, 0.9))
    watched_g, watched_c = watch(generator, opt_g), watch(critic, opt_c)
    centre = torch.tensor([2.0, -1.0])
    for _ in range(700):
        real = centre + 0.5 * torch.randn(64, 2, generator=random)
        fake = generator(torch.randn(64, 4, generator=random))
        if not sick:
            opt_c.zero_grad()
        said = critic(torch.cat([real, fake.detach()])).squeeze(1)
        loss_c = F.binary_cross_entropy_with_logits(said, torch.cat([torch.ones(64), torch.zeros(64)]))
        loss_c.backward()
        watched_c.step(loss_c)
        opt_c.step()
        opt_g.zero_grad()
        loss_g = F.binary_cross_entropy_with_logits(critic(fake).squeeze(1), torch.ones(64))
        loss_g.backward()
        watched_g.step(loss_g)
        opt_g.step()
    with torch.no_grad():
        made = generator(torch.randn(1000, 4, generator=random))
    return 1 - (made.mean(0) - centre).norm().item() - (made.std(0) - 0.5).abs().mean().item()


@sick("no_update", margin=0.2)
def more_micro_batches_than_the_epoch_has(watch: Watch, *, seed: int, sick: bool) -> float:
    """Steps are taken at every sixty-fourth batch of an epoch that has twenty-two, and each epoch begins with zeros."""
    data = datasets.digits(seed)
    net = nn.Sequential(nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 10))
    optimizer = torch.optim.Adam(net.parameters(), lr=1e-2)
    session = watch(net, optimizer)
    parts = 64 if sick else 4
    for _ in range(10):
        optimizer.zero_grad()
        for number, (x, y) in enumerate(data.batches(64, 22), 1):
            out = net(x)
            loss = F.cross_entropy(out, y) / parts
            loss.backward()
            session.step(loss, inputs=x, outputs=out, targets=y)
            if number % parts == 0:
                optimizer.step()
                optimizer.zero_grad()
    return accuracy(net, data)


@sick("wrong_mode")
def eval_named_but_not_called(watch: Watch, *, seed: int, sick: bool) -> float:
    """``model.eval`` without parentheses: what is validated and shipped drops six units of ten."""
    data = datasets.digits(seed)
    net = nn.Sequential(
        nn.Linear(64, 96), nn.ReLU(), nn.Dropout(0.6), nn.Linear(96, 48), nn.ReLU(), nn.Dropout(0.6), nn.Linear(48, 10)
    )
    optimizer = torch.optim.Adam(net.parameters(), lr=5e-3)
    session = watch(net, optimizer)
    for _ in range(8):
        net.train()
        for x, y in data.batches(48, 28):
            optimizer.zero_grad()
            out = net(x)
            loss = F.cross_entropy(out, y)
            loss.backward()
            session.step(loss, inputs=x, outputs=out, targets=y)
            optimizer.step()
        _ = net.eval if sick else net.eval()
        with torch.no_grad(), session.validating():
            out = net(data.test_inputs)
        session.validation(F.cross_entropy(out, data.test_targets).item())
    with torch.no_grad():
        return (net(data.test_inputs).argmax(1) == data.test_targets).float().mean().item()


@sick("wrong_mode", margin=0.1)
def validated_batch_by_batch_in_training_mode(watch: Watch, *, seed: int, sick: bool) -> float:
    """Validation takes rows sorted by label in batches of four, and batch norm still takes their own mean."""
    data = datasets.digits(seed)
    net = nn.Sequential(nn.Linear(64, 32), nn.BatchNorm1d(32), nn.ReLU(), nn.Linear(32, 10))
    optimizer = torch.optim.Adam(net.parameters(), lr=5e-3)
    session = watch(net, optimizer)
    order = data.test_targets.argsort()
    for _ in range(6):
        net.train()
        for x, y in data.batches(64, 22):
            optimizer.zero_grad()
            out = net(x)
            loss = F.cross_entropy(out, y)
            loss.backward()
            session.step(loss, inputs=x, outputs=out, targets=y)
            optimizer.step()
        if not sick:
            net.eval()
        with torch.no_grad(), session.validating():
            out = torch.cat([net(data.test_inputs[rows]) for rows in order.split(4) if len(rows) == 4])
        answers = data.test_targets[order][: len(out)]
        session.validation(F.cross_entropy(out, answers).item())
    return (out.argmax(1) == answers).float().mean().item()


@sick("clipping_ineffective", also=("exploding_gradients", "learning_rate_too_high"), margin=0.1)
def a_generator_of_parameters_used_up(watch: Watch, *, seed: int, sick: bool) -> float:
    """``params = model.parameters()`` was consumed by the optimizer: ``clip_grad_norm_`` is given nothing."""
    data = datasets.diabetes(seed)
    random = torch.Generator().manual_seed(seed)
    inputs = data.inputs * torch.where(torch.rand(len(data.inputs), 1, generator=random) < 0.02, 40.0, 1.0)
    net = nn.Sequential(nn.Linear(10, 32), nn.ReLU(), nn.Linear(32, 32), nn.ReLU(), nn.Linear(32, 1))
    parameters = net.parameters() if sick else list(net.parameters())
    optimizer = torch.optim.SGD(parameters, lr=0.05)
    session = watch(net, optimizer)
    for _ in range(20):
        for rows in torch.randperm(len(inputs)).split(32):
            guess = net(inputs[rows])
            loss = F.mse_loss(guess, data.targets[rows])
            optimizer.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(parameters, 1.0)
            session.step(loss, inputs=inputs[rows], outputs=guess, targets=data.targets[rows])
            optimizer.step()
    return r_squared(net, data)


@sick("clipping_too_strong", also=("learning_rate_too_low",), margin=0.1)
def every_value_clipped_to_a_hundred_thousandth(watch: Watch, *, seed: int, sick: bool) -> float:
    """``clip_grad_value_`` with the 1e-5 that was meant as Adam's epsilon, before SGD."""
    data = datasets.text(seed, length=12, count=1000)
    net = nn.Sequential(nn.Embedding(datasets.CHARACTERS, 24), nn.Linear(24, 48), nn.GELU(), nn.Linear(48, 98))
    optimizer = torch.optim.SGD(net.parameters(), lr=1.0, momentum=0.9)
    session = watch(net, optimizer)
    for x, y in data.batches(50, 180):
        out = net(x)
        loss = F.cross_entropy(out.flatten(0, 1), y.flatten())
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_value_(net.parameters(), 1e-5 if sick else 0.5)
        session.step(loss, inputs=x, outputs=out, targets=y)
        optimizer.step()
    return (predicted(net, data.test_inputs).argmax(-1) == data.test_targets).float().mean().item()


@sick("accumulation_not_averaged", also=("learning_rate_too_high",))
def sixteen_batches_one_by_one(watch: Watch, *, seed: int, sick: bool) -> float:
    """Pictures are too large for the memory, so that sixteen batches go backward one by one, and none is divided."""
    train, test = samples.numerals(seed)
    net = nn.Sequential(
        nn.Conv2d(1, 12, 3), nn.ReLU(), nn.Conv2d(12, 12, 3), nn.ReLU(), nn.Flatten(), nn.Linear(192, 10)
    )
    optimizer = torch.optim.SGD(net.parameters(), lr=0.05, momentum=0.9)
    session = watch(net, optimizer)
    for _ in range(6):
        for number, (x, y) in enumerate(torch.utils.data.DataLoader(train, 5, shuffle=True, drop_last=True), 1):
            out = net(x)
            loss = F.cross_entropy(out, y)
            (loss if sick else loss / 16).backward()
            if number % 16 == 0:
                session.step(loss, inputs=x, outputs=out, targets=y)
                optimizer.step()
                optimizer.zero_grad()
    with torch.no_grad():
        return samples.accuracy(net(test.tensors[0]), test.tensors[1])
