"""Sound trainings on pictures: masks, noise, colours, depth, fine-tuning."""

import torch
from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812
from torch.optim import lr_scheduler

from examples.zoo import datasets, samples
from examples.zoo.cases import Watch, healthy
from examples.zoo.loops import accuracy, fit, predicted

from . import material
from .material import descend


class Bridge(nn.Module):
    """A small U-Net: down once, deep, up again, joined with what was seen before."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.down = nn.Sequential(nn.Conv2d(1, width, 3, padding=1), nn.ReLU())
        self.deep = nn.Sequential(nn.MaxPool2d(2), nn.Conv2d(width, width, 3, padding=1), nn.ReLU())
        self.up = nn.ConvTranspose2d(width, width, 2, 2)
        self.out = nn.Conv2d(2 * width, 1, 3, padding=1)

    def forward(self, images: Tensor) -> Tensor:
        """Returns a score for each pixel."""
        early = self.down(images)
        return self.out(torch.cat([early, self.up(self.deep(early))], 1))


def _overlap(net: nn.Module, images: Tensor, masks: Tensor) -> float:
    found = (predicted(net, images) > 0).float()
    return (2 * (found * masks).sum() / (found + masks).sum().clamp(min=1)).item()


@healthy(at_least=0.9)
def masks_by_overlap_and_entropy(watch: Watch, *, seed: int) -> float:
    """A U-Net under Dice plus cross entropy, where one pixel in nine is of the drawing."""
    data, masks, test_masks = material.drawings(seed, noise=0.6)
    net = Bridge(10)
    optimizer = torch.optim.AdamW(net.parameters(), lr=4e-3)
    session = watch(net, optimizer)
    for rows in torch.randint(len(masks), (150, 24)):
        out, asked = net(data.inputs[rows]), masks[rows]
        said = out.sigmoid()
        dice = 1 - 2 * (said * asked).sum() / (said + asked).sum()
        loss = dice + F.binary_cross_entropy_with_logits(out, asked)
        descend(session, optimizer, loss, inputs=data.inputs[rows], outputs=out, targets=asked)
    return _overlap(net, data.test_inputs, test_masks)


@healthy(at_least=0.8)
def noise_removed_by_its_residual(watch: Watch, *, seed: int) -> float:
    """The net says what noise to take off a digit; its last layer starts at zero, so that it begins with nothing."""
    data = datasets.digits(seed, images=True)
    net = Bridge(12)
    nn.init.zeros_(net.out.weight)
    optimizer = torch.optim.Adam(net.parameters(), lr=4e-3)
    session = watch(net, optimizer)
    for x, _ in data.batches(48, 200):
        noisy = x + 0.3 * torch.randn_like(x)
        out = noisy - net(noisy)
        descend(session, optimizer, F.mse_loss(out, x), inputs=noisy, outputs=out, targets=x)
    noisy = data.test_inputs + 0.3 * torch.randn(data.test_inputs.shape, generator=material.drawn(seed))
    return material.fit_of(noisy - predicted(net, noisy), data.test_inputs)


@healthy(at_least=0.65)
def kinds_by_a_residual_net_with_group_norm(watch: Watch, *, seed: int) -> float:
    """Three residual blocks with group norm, batches of sixteen, AdamW and a cosine."""
    data, _, _ = material.drawings(seed)

    class Block(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.body = nn.Sequential(
                nn.Conv2d(12, 12, 3, padding=1, bias=False),
                nn.GroupNorm(3, 12),
                nn.ReLU(),
                nn.Conv2d(12, 12, 3, padding=1),
            )

        def forward(self, x: Tensor) -> Tensor:
            return (x + self.body(x)).relu()

    net = nn.Sequential(nn.Conv2d(1, 12, 3, 2, 1), Block(), Block(), Block(), nn.AdaptiveAvgPool2d(2), nn.Flatten(),
                        nn.Linear(48, 3))  # fmt: skip
    optimizer = torch.optim.AdamW(net.parameters(), lr=5e-3)
    schedule = lr_scheduler.CosineAnnealingLR(optimizer, 320, 2e-4)
    fit(watch, net, optimizer, data, steps=320, batch_size=16, scheduler=schedule)
    return accuracy(net, data)


@healthy(at_least=0.85)
def shifted_and_rubbed_out(watch: Watch, *, seed: int) -> float:
    """Digits are shifted by a pixel and partly rubbed out in training only: training is harder than validation."""
    data = datasets.digits(seed, images=True)
    net = nn.Sequential(nn.Conv2d(1, 16, 3, padding=1), nn.BatchNorm2d(16), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(),
                        nn.Linear(256, 10))  # fmt: skip
    optimizer = torch.optim.AdamW(net.parameters(), lr=6e-3)
    session = watch(net, optimizer)
    for x, y in data.batches(48, 340):
        down, along = torch.randint(-1, 2, (2,)).tolist()
        seen = x.roll((down, along), (2, 3)).clone()
        top, left = torch.randint(0, 6, (2,)).tolist()
        seen[:, :, top : top + 2, left : left + 2] = 0
        out = net(seen)
        descend(session, optimizer, F.cross_entropy(out, y), inputs=seen, outputs=out, targets=y)
    return accuracy(net, data)


@healthy(at_least=0.8)
def the_middle_of_a_patch_from_its_rim(watch: Watch, *, seed: int) -> float:
    """Inpainting of photographs by an MLP, absolute errors, standardised bytes."""
    patches = datasets.patches(seed, size=6, count=1200) / 64 - 2
    middle = torch.zeros(6, 6, dtype=torch.bool)
    middle[2:4, 2:4] = True
    data = material.parted(patches[:, ~middle.flatten()], patches[:, middle.flatten()])
    net = material.mlp(32, 48, 4, act=nn.GELU)
    optimizer = torch.optim.Adam(net.parameters(), lr=3e-3)
    schedule = lr_scheduler.ExponentialLR(optimizer, 0.99)
    fit(watch, net, optimizer, data, steps=260, batch_size=48, loss_function=F.l1_loss, scheduler=schedule)
    return material.fit_of(predicted(net, data.test_inputs), data.test_targets)


@healthy(at_least=0.75)
def red_from_green_and_blue(watch: Watch, *, seed: int) -> float:
    """A missing colour of photographs by convolutions without padding of zeros; a Charbonnier loss."""
    train, test = samples.scenes(seed, count=1000)
    x, asked = train.tensors[0][:, 1:], train.tensors[0][:, :1]
    net = nn.Sequential(nn.Conv2d(2, 12, 3, padding=1, padding_mode="reflect"), nn.SiLU(), nn.Conv2d(12, 1, 1))
    optimizer = torch.optim.Adam(net.parameters(), lr=6e-3)
    session = watch(net, optimizer)
    for rows in torch.randint(len(x), (200, 24)):
        out = net(x[rows])
        loss = ((out - asked[rows]).square() + 1e-4).sqrt().mean()
        descend(session, optimizer, loss, inputs=x[rows], outputs=out, targets=asked[rows])
    return material.fit_of(predicted(net, test.tensors[0][:, 1:]), test.tensors[0][:, :1])


@healthy(at_least=0.65)
def a_probe_on_a_frozen_body_of_drawings(watch: Watch, *, seed: int) -> float:
    """Filters learnt on digits are frozen, in eval mode, and a head learns drawings: rarely moving, and meant so."""
    digits = datasets.digits(seed, images=True)
    body = nn.Sequential(nn.Conv2d(1, 24, 3, padding=1), nn.ReLU(), nn.Conv2d(24, 24, 3, padding=1), nn.ReLU(),
                         nn.AdaptiveMaxPool2d(4), nn.Flatten())  # fmt: skip
    before = nn.Sequential(body, nn.Linear(384, 10))
    optimizer = torch.optim.Adam(before.parameters(), lr=3e-3)
    for x, y in digits.batches(48, 60):
        optimizer.zero_grad()
        F.cross_entropy(before(x), y).backward()
        optimizer.step()
    body.requires_grad_(False).eval()
    data, _, _ = material.drawings(seed)
    head = nn.Linear(384, 3)
    net = nn.Sequential(body, head)
    fit(watch, net, torch.optim.Adam(head.parameters(), lr=3e-3), data, steps=200, batch_size=48)
    return accuracy(net, data)


@healthy(at_least=0.85)
def patches_mixed_by_linear_layers(watch: Watch, *, seed: int) -> float:
    """A mixer: tokens of patches, mixed over places and over channels in turn, layer norms in front."""
    data = datasets.digits(seed, images=True)

    class Mixer(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.cut = nn.Conv2d(1, 24, 2, 2)
            self.norms = nn.ModuleList(nn.LayerNorm(24) for _ in range(4))
            self.places = nn.ModuleList(material.mlp(16, 24, 16, act=nn.GELU) for _ in range(2))
            self.channels = nn.ModuleList(material.mlp(24, 40, 24, act=nn.GELU) for _ in range(2))
            self.head = nn.Linear(24, 10)

        def forward(self, images: Tensor) -> Tensor:
            x = self.cut(images).flatten(2).transpose(1, 2)
            for one in range(2):
                x = x + self.places[one](self.norms[2 * one](x).transpose(1, 2)).transpose(1, 2)
                x = x + self.channels[one](self.norms[2 * one + 1](x))
            return self.head(x.mean(1))

    net = Mixer()
    fit(watch, net, torch.optim.AdamW(net.parameters(), lr=4e-3), data, steps=200, batch_size=48)
    return accuracy(net, data)


@healthy(at_least=0.75)
def where_and_what_at_once(watch: Watch, *, seed: int) -> float:
    """Kind and centre of a drawing by two heads, with losses of different size. Quality: accuracy times R²."""
    data, masks, test_masks = material.drawings(seed)
    places = torch.linspace(-1, 1, 12)

    def centres(mask: Tensor) -> Tensor:
        weight = mask[:, 0] / mask.sum((1, 2, 3))[:, None, None]
        return torch.stack([(weight.sum(2) * places).sum(1), (weight.sum(1) * places).sum(1)], 1)

    where, test_where = centres(masks), centres(test_masks)
    net = nn.Sequential(nn.Conv2d(1, 16, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(16, 24, 3), nn.ReLU(),
                        nn.Flatten(), nn.Linear(384, 5))  # fmt: skip
    optimizer = torch.optim.Adam(net.parameters(), lr=3e-3)
    session = watch(net, optimizer)
    for rows in torch.randint(len(masks), (240, 32)):
        out = net(data.inputs[rows])
        loss = F.cross_entropy(out[:, :3], data.targets[rows]) + 4 * F.mse_loss(out[:, 3:], where[rows])
        descend(session, optimizer, loss, inputs=data.inputs[rows], outputs=out)
    out = predicted(net, data.test_inputs)
    return material.hit_rate(out[:, :3], data.test_targets) * material.fit_of(out[:, 3:], test_where)
