"""Who owns which parameters, and through what a gradient has to pass to reach them."""

import itertools

import torch
from torch import nn
from torch.nn import functional as F  # noqa: N812

from examples.zoo import datasets, samples
from examples.zoo.cases import Watch, sick
from examples.zoo.loops import accuracy, fit


@sick("frozen_parameters", margin=0.1)
def the_new_head_was_frozen_with_the_rest(watch: Watch, *, seed: int, sick: bool) -> float:
    """The head is replaced first, and then all parameters are frozen but those called "fc", as it once was called."""
    data = datasets.digits(seed, images=True)
    net = nn.Sequential()
    net.add_module("body", nn.Sequential(nn.Conv2d(1, 16, 3), nn.ReLU(), nn.Flatten()))
    net.add_module("hidden", nn.Linear(576, 32))
    net.add_module("act", nn.ReLU())
    net.add_module("fc", nn.Linear(32, 10))
    for name, parameter in net.named_parameters():
        parameter.requires_grad = name == "fc.bias" if sick else not name.startswith("body")
    optimizer = torch.optim.Adam(net.parameters(), lr=5e-3)
    fit(watch, net, optimizer, data, steps=160, validate_every=40)
    return accuracy(net, data)


@sick("frozen_parameters", margin=0.05)
def linear_layers_taken_for_norms(watch: Watch, *, seed: int, sick: bool) -> float:
    """The norms of a net were to be frozen, and ``isinstance`` asks for ``nn.Linear``: only norms are trained."""
    data = datasets.digits(seed)
    blocks = [nn.Sequential(nn.Linear(64 if first else 24, 24), nn.LayerNorm(24), nn.ReLU()) for first in (True, False)]
    net = nn.Sequential(*blocks, nn.Linear(24, 10), nn.LayerNorm(10))
    for module in net.modules():
        if isinstance(module, nn.Linear if sick else nn.LayerNorm):
            module.requires_grad_(False)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.05, momentum=0.9)
    fit(watch, net, optimizer, data, steps=200)
    return accuracy(net, data)


@sick("parameters_not_in_optimizer", also=("frozen_parameters", "stopped_too_early"), margin=0.1)
def thawed_after_the_optimizer_was_filtered(watch: Watch, *, seed: int, sick: bool) -> float:
    """The optimizer took what required gradients while the body was frozen; the body is thawed after 20 steps."""
    data = datasets.digits(seed)
    net = nn.Sequential(nn.Linear(64, 6), nn.Tanh(), nn.Linear(6, 32), nn.Tanh(), nn.Linear(32, 10))
    net[0].requires_grad_(False)
    net[2].requires_grad_(False)
    trained = [parameter for parameter in net.parameters() if parameter.requires_grad or not sick]
    optimizer = torch.optim.SGD(trained, lr=0.1, momentum=0.9)
    session = watch(net, optimizer)
    for step, (x, y) in enumerate(data.batches(64, 240)):
        if step == 20:
            net.requires_grad_(True)
        optimizer.zero_grad()
        out = net(x)
        loss = F.cross_entropy(out, y)
        loss.backward()
        session.step(loss, inputs=x, outputs=out, targets=y)
        optimizer.step()
    return accuracy(net, data)


class _Translator(nn.Module):
    """Writes a text backwards: an encoder, a decoder, and words that both know."""

    def __init__(self) -> None:
        super().__init__()
        self.words = nn.Embedding(12, 16)
        self.encoder, self.decoder = nn.GRU(16, 32, batch_first=True), nn.GRU(16, 32, batch_first=True)
        self.out = nn.Linear(32, 12)

    def forward(self, texts: torch.Tensor, given: torch.Tensor) -> torch.Tensor:
        state = self.encoder(self.words(texts))[1]
        return self.out(self.decoder(self.words(given), state)[0])


@sick("parameters_not_in_optimizer", margin=0.03)
def the_encoder_of_a_translator(watch: Watch, *, seed: int, sick: bool) -> float:
    """Sequence to sequence: the optimizer was given the decoder, the embedding and the output, not the encoder."""
    random = torch.Generator().manual_seed(seed)
    net = _Translator()
    parts = [net.words, net.decoder, net.out] if sick else [net]
    optimizer = torch.optim.Adam(itertools.chain(*(part.parameters() for part in parts)), lr=1e-2)
    session = watch(net, optimizer)

    def pair(count: int) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        texts = torch.randint(1, 12, (count, 5), generator=random)
        wanted = texts.flip(1)
        return texts, torch.cat([torch.zeros(count, 1, dtype=torch.long), wanted[:, :-1]], 1), wanted

    for _ in range(200):
        texts, given, wanted = pair(64)
        logits = net(texts, given)
        loss = F.cross_entropy(logits.transpose(1, 2), wanted)
        optimizer.zero_grad()
        loss.backward()
        session.step(loss, inputs=texts, outputs=logits, targets=wanted)
        optimizer.step()
    texts, given, wanted = pair(500)
    with torch.no_grad():
        return (net(texts, given).argmax(-1) == wanted).float().mean().item()


@sick("detached_parameters", margin=0.1)
def features_through_a_list(watch: Watch, *, seed: int, sick: bool) -> float:
    """``torch.tensor(features.tolist())`` in the forward pass, to get rid of a warning."""
    data = datasets.digits(seed)

    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.body, self.head = nn.Sequential(nn.Linear(64, 5), nn.Tanh()), nn.Linear(5, 10)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            features = self.body(x)
            return self.head(torch.tensor(features.tolist()) if sick else features)

    net = Net()
    fit(watch, net, torch.optim.Adam(net.parameters(), lr=1e-2), data, steps=250)
    return accuracy(net, data)


@sick("detached_parameters", also=("frozen_parameters",), margin=0.05)
def a_code_by_argmax(watch: Watch, *, seed: int, sick: bool) -> float:
    """An autoencoder's code is one-hot by ``argmax``, which no gradient passes: its encoder never moves."""
    data = datasets.digits(seed)
    encoder = nn.Sequential(nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 32))
    decoder = nn.Sequential(nn.Linear(32, 64))
    net = nn.Sequential(encoder, decoder)
    optimizer = torch.optim.Adam(net.parameters(), lr=1e-2)
    session = watch(net, optimizer)

    def code(logits: torch.Tensor, noise: bool = True) -> torch.Tensor:
        hard = F.one_hot(logits.argmax(1), 32).float()
        if sick or not noise:
            return hard
        return F.gumbel_softmax(logits, tau=1.0)

    for x, _ in data.batches(64, 300):
        made = decoder(code(encoder(x)))
        loss = F.mse_loss(made, x)
        optimizer.zero_grad()
        loss.backward()
        session.step(loss, inputs=x, outputs=made, targets=x)
        optimizer.step()
    with torch.no_grad():
        return samples.explained(decoder(code(encoder(data.test_inputs), noise=False)), data.test_inputs)
