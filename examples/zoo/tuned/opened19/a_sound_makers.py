"""Sound trainings that make pictures, or in which much is left out on purpose."""

import torch
from torch import nn
from torch.nn import functional
from torch.utils.data import DataLoader

from examples.zoo import datasets, samples
from examples.zoo.cases import Watch, healthy


@healthy(at_least=0.8)
def a_forger_under_least_squares(watch: Watch, *, seed: int) -> float:
    """LSGAN of upper halves of digits: neither loss falls for long. Quality: how near the mean pixels are."""
    real = datasets.digits(seed).inputs[:, :32] * 2 - 1
    maker = nn.Sequential(
        nn.Linear(8, 64), nn.LeakyReLU(0.2), nn.Linear(64, 64), nn.LeakyReLU(0.2), nn.Linear(64, 32), nn.Tanh()
    )
    judge = nn.Sequential(nn.Linear(32, 64), nn.LeakyReLU(0.2), nn.Linear(64, 1))
    making = torch.optim.Adam(maker.parameters(), lr=1e-3, betas=(0.5, 0.999))
    judging = torch.optim.Adam(judge.parameters(), lr=2e-3, betas=(0.5, 0.999))
    maker_session, judge_session = watch(maker, making), watch(judge, judging)
    for _ in range(400):
        true = real[torch.randint(len(real), (64,))]
        noise = torch.randn(64, 8)
        made = maker(noise)
        answers = judge(torch.cat([true, made.detach()]))[:, 0]
        wanted = torch.cat([torch.full((64,), 0.9), torch.zeros(64)])
        loss = functional.mse_loss(answers, wanted)
        judging.zero_grad()
        loss.backward()
        judge_session.step(loss, outputs=answers, targets=wanted)
        judging.step()
        loss = (judge(made) - 1).square().mean()
        making.zero_grad()
        loss.backward()
        maker_session.step(loss, inputs=noise, outputs=made)
        making.step()
    with torch.no_grad():
        made = maker.eval()(torch.randn(1000, 8))
    return 1 - (made.mean(0) - real.mean(0)).abs().mean().item()


@healthy(at_least=0.25)
def a_convolutional_vae_in_nats(watch: Watch, *, seed: int) -> float:
    """Pixels are shares under a Bernoulli likelihood, summed: the loss is tens of nats and stays there."""
    data = datasets.digits(seed, images=True)
    encoder = nn.Sequential(
        nn.Conv2d(1, 12, 3, 2, padding=1), nn.SiLU(), nn.Conv2d(12, 24, 3, 2, padding=1), nn.SiLU(), nn.Flatten(),
        nn.Linear(96, 16),
    )  # fmt: skip
    decoder = nn.Sequential(
        nn.Linear(8, 96), nn.SiLU(), nn.Unflatten(1, (24, 2, 2)), nn.ConvTranspose2d(24, 12, 2, 2), nn.SiLU(),
        nn.ConvTranspose2d(12, 12, 2, 2), nn.SiLU(), nn.Conv2d(12, 1, 3, padding=1),
    )  # fmt: skip
    model = nn.ModuleDict({"encoder": encoder, "decoder": decoder})
    optimizer = torch.optim.Adam(model.parameters(), lr=4e-3)
    session = watch(model, optimizer)
    for images, _ in data.batches(48, 200):
        mean, spread = encoder(images * 2 - 1).chunk(2, 1)
        outputs = decoder(mean + torch.randn_like(mean) * (spread / 2).exp())
        likelihood = functional.binary_cross_entropy_with_logits(outputs, images, reduction="none")
        divergence = 0.5 * (mean.square() + spread.exp() - 1 - spread).flatten(1).sum(1).mean()
        loss = likelihood.flatten(1).sum(1).mean() + divergence
        optimizer.zero_grad()
        loss.backward()
        session.step(loss, inputs=images, outputs=outputs, targets=images)
        optimizer.step()
    with torch.no_grad():
        outputs = decoder(encoder(data.test_inputs * 2 - 1)[:, :8]).sigmoid()
    return samples.explained(outputs.flatten(1), data.test_inputs.flatten(1))


@healthy(at_least=0.88)
def whole_channels_dropped_and_squares_cut_out(watch: Watch, *, seed: int) -> float:
    """Dropout of channels, squares cut out, and softened labels: the validation's loss is far below the training's."""
    train, test = samples.numerals(seed)
    model = nn.Sequential(
        nn.Conv2d(1, 16, 3, padding=1), nn.BatchNorm2d(16), nn.ReLU(), nn.Dropout2d(0.2), nn.MaxPool2d(2),
        nn.Conv2d(16, 32, 3, padding=1), nn.BatchNorm2d(32), nn.ReLU(), nn.Dropout2d(0.3), nn.MaxPool2d(2),
        nn.Flatten(), nn.Dropout(0.4), nn.Linear(128, 10),
    )  # fmt: skip
    loader = DataLoader(train, 48, shuffle=True)
    optimizer = torch.optim.AdamW(model.parameters(), lr=5e-3, weight_decay=0.05)
    scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 9 * len(loader))
    session = watch(model, optimizer)
    for _ in range(9):
        model.train()
        for images, labels in loader:
            down, right = torch.randint(6, (2,)).tolist()
            cut = images.clone()
            cut[:, :, down : down + 3, right : right + 3] = 0
            outputs = model(cut)
            loss = functional.cross_entropy(outputs, labels, label_smoothing=0.1)
            optimizer.zero_grad()
            loss.backward()
            session.step(loss, inputs=cut, outputs=outputs, targets=labels)
            optimizer.step()
            scheduler.step()
        model.eval()
        with torch.no_grad(), session.validating():
            outputs = model(test.tensors[0])
        session.validation(functional.cross_entropy(outputs, test.tensors[1]).item())
    return samples.accuracy(outputs, test.tensors[1])
