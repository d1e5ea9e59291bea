"""What is not connected: gradients, parameters, optimizers, modes."""

from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812
from sklearn.datasets import load_wine
from torch import Tensor, nn, optim

from examples.zoo.cases import Watch, sick
from examples.zoo.tuned.opened7.builds import Attentive, Flat, convnet, explained, mlp, outputs_of, right, share
from examples.zoo.tuned.opened7.drills import Trainer, closures, drill, falling, rounds
from examples.zoo.tuned.opened7.supplies import (
    Rows,
    anew,
    dialects,
    fresh,
    friedman,
    images,
    pixels,
    portraits,
    table,
    tones,
)


@sick("gradients_not_zeroed")
def a_closure_without_zero_grad(watch: Watch, *, seed: int, sick: bool) -> float:
    """The closure was copied without its first line."""
    rows = friedman(seed)
    model = Flat(mlp(10, 32, 1, act=nn.Tanh))
    optimizer = optim.SGD(model.parameters(), lr=0.08, momentum=0.8)
    closures(watch, model, optimizer, rows.epochs(48, 300), F.mse_loss, clear=not sick)
    return explained(model, rows)


@sick("gradients_not_zeroed")
def the_other_optimizers_zero_grad(watch: Watch, *, seed: int, sick: bool) -> float:
    """Two optimizers, and ``zero_grad`` of the head's is called twice."""
    rows = pixels(seed)
    body, head = mlp(64, 48, 32), nn.Linear(32, 10)
    model = nn.Sequential(body, nn.ReLU(), head)
    slow, fast = optim.SGD(body.parameters(), lr=0.1, momentum=0.7), optim.SGD(head.parameters(), lr=0.1)
    session = watch(model, fast)  # which steps last
    for x, y in rows.epochs(32, 200):
        (fast if sick else slow).zero_grad()
        fast.zero_grad()
        out = model(x)
        loss = F.cross_entropy(out, y)
        loss.backward()
        session.step(loss, inputs=x, outputs=out, targets=y)
        slow.step()
        fast.step()
    return right(model, rows)


@sick("gradients_not_zeroed")
def zeroed_once_an_epoch(watch: Watch, *, seed: int, sick: bool) -> float:
    """``optimizer.zero_grad()`` is indented one level too little."""
    rows = dialects(seed)

    class Once(Trainer):
        def backward(self, loss: Tensor) -> None:
            if not sick or self.global_step % 50 == 0:
                self.optimizer.zero_grad()
            loss.backward()

    model = nn.Sequential(nn.EmbeddingBag(60, 24, mode="sum"), nn.Tanh(), nn.Linear(24, 4))
    optimizer = optim.SGD(model.parameters(), lr=0.15, momentum=0.9)
    Once(model, optimizer).fit(watch, rows, epochs=4)
    return right(model, rows)


@sick("frozen_parameters")
def a_backbone_without_its_checkpoint(watch: Watch, *, seed: int, sick: bool) -> float:
    """The backbone is frozen as in the tutorial, but nothing was loaded into it; its 6 features are random."""
    rows = images(seed)
    model = nn.Sequential(
        nn.Conv2d(1, 6, 3, stride=2), nn.ReLU(), nn.Conv2d(6, 6, 3), nn.ReLU(), nn.Flatten(), nn.Linear(6, 10)
    )
    if sick:
        model[:4].requires_grad_(False)
    optimizer = optim.Adam((weight for weight in model.parameters() if weight.requires_grad), lr=2e-2)
    drill(watch, model, optimizer, rows.epochs(32, 300), after=falling(optimizer, 300))
    return right(model, rows)


@sick("frozen_parameters")
def only_norms_and_the_head(watch: Watch, *, seed: int, sick: bool) -> float:
    """``if "norm" not in name: p.requires_grad = False`` is a recipe for pretrained transformers; this one is new."""
    rows = _order(seed)
    model = Attentive()
    for name, weight in model.named_parameters():
        weight.requires_grad_(not sick or "norm" in name or "head" in name)
    optimizer = optim.AdamW([weight for weight in model.parameters() if weight.requires_grad], lr=4e-3)
    drill(watch, model, optimizer, rows.epochs(48, 220))
    return right(model, rows)


def _order(seed: int) -> Rows:
    """Words (N, 16); the class is which of four marks stands there, between other words."""
    random = torch.Generator().manual_seed(seed)
    words = torch.randint(8, 60, (2600, 16), generator=random)
    label, place = torch.randint(4, (2600,), generator=random), torch.randint(16, (2600,), generator=random)
    words[torch.arange(2600), place] = label
    return Rows(words[:2000], label[:2000], words[2000:], label[2000:])


@sick("frozen_parameters")
def never_thawed(watch: Watch, *, seed: int, sick: bool) -> float:
    """``for p in model.body: p.requires_grad = True`` in epoch 1 sets an attribute of modules, not of parameters."""
    rows = friedman(seed)
    model = Flat(mlp(10, 12, 12, 1))
    hidden = model.body[:4].requires_grad_(False)
    optimizer = optim.SGD(model.parameters(), lr=0.05, momentum=0.9)

    class Thawing(Trainer):
        def on_epoch_end(self) -> None:
            for layer in hidden:
                if sick:
                    layer.requires_grad = True
                else:
                    layer.requires_grad_(True)

    Thawing(model, optimizer, criterion=F.mse_loss).fit(watch, rows, epochs=7)
    return explained(model, rows)


@sick("parameters_not_in_optimizer")
def an_optimizer_for_biases(watch: Watch, *, seed: int, sick: bool) -> float:
    """Two groups by name, and the group of weights was left out when the list was put together."""
    rows = table(load_wine, seed)
    model = mlp(13, 16, 3)
    named = dict(model.named_parameters())
    groups: list[dict[str, Any]] = [{"params": [named[name] for name in named if "bias" in name], "weight_decay": 0.0}]
    if not sick:
        groups.append({"params": [named[name] for name in named if "weight" in name], "weight_decay": 1e-2})
    optimizer = optim.AdamW(groups, lr=1e-2)
    drill(watch, model, optimizer, rows.epochs(24, 120))
    return right(model, rows)


@sick("parameters_not_in_optimizer")
def a_table_made_after_the_optimizer(watch: Watch, *, seed: int, sick: bool) -> float:
    """The embedding is enlarged for new words, after the optimizer has taken the old one's weight."""
    rows = dialects(seed)
    model = nn.Sequential(nn.EmbeddingBag(50, 4), nn.Linear(4, 4))
    if not sick:
        model[0] = nn.EmbeddingBag(60, 4)
    optimizer = optim.Adam(model.parameters(), lr=3e-2)
    if sick:
        model[0] = nn.EmbeddingBag(60, 4)
    drill(watch, model, optimizer, rows.epochs(32, 200), nn.CrossEntropyLoss(label_smoothing=0.05))
    return right(model, rows)


@sick("parameters_not_in_optimizer")
def the_decoder_alone(watch: Watch, *, seed: int, sick: bool) -> float:
    """``optim.Adam(decoder.parameters())`` stayed from a trial with a fixed encoder."""
    rows = portraits(seed)
    encoder, decoder = mlp(64, 32, 8), mlp(8, 32, 64)
    model = nn.Sequential(encoder, decoder)
    optimizer = optim.Adam((decoder if sick else model).parameters(), lr=8e-3)
    drill(watch, model, optimizer, rows.epochs(48, 340), F.mse_loss)
    return explained(model, rows)


class Listed(nn.Module):
    """Keeps its hidden layers in a list of Python's, or in one that registers them."""

    def __init__(self, kind: Any) -> None:
        super().__init__()
        self.hidden = kind([nn.Linear(10, 8), nn.Linear(8, 8)])
        self.head = nn.Linear(8, 1)

    def forward(self, x: Tensor) -> Tensor:
        for layer in self.hidden:
            x = layer(x).relu()
        return self.head(x)[:, 0]


@sick("parameters_not_in_optimizer")
def layers_in_a_plain_list(watch: Watch, *, seed: int, sick: bool) -> float:
    """``self.hidden = [...]`` hides the layers from ``parameters()``."""
    rows = friedman(seed)
    model = Listed(list if sick else nn.ModuleList)
    optimizer = optim.RMSprop(model.parameters(), lr=4e-3)
    drill(watch, model, optimizer, rows.epochs(32, 340), F.mse_loss)
    return explained(model, rows)


@sick("detached_parameters")
def a_code_detached(watch: Watch, *, seed: int, sick: bool) -> float:
    """``code.detach()`` was for a plot, and then the variable was used further on."""
    rows = pixels(seed)
    encoder, decoder = mlp(64, 32, 6), mlp(6, 32, 64)
    model = nn.ModuleDict({"encoder": encoder, "decoder": decoder})
    optimizer = optim.Adam(model.parameters(), lr=8e-3)
    batches = rows.epochs(48, 340)

    def objective() -> tuple[Tensor, dict[str, Tensor]]:
        x, _ = next(batches)
        code = encoder(x)
        out = decoder(code.detach() if sick else code)
        return F.mse_loss(out, x), {"inputs": x, "outputs": out, "targets": x}

    rounds(watch, model, optimizer, 340, objective)
    return share(outputs_of(decoder, outputs_of(encoder, rows.x_test)), rows.x_test)


class Passing(nn.Module):
    """Calls a recurrent layer, without gradients if told so, and judges its last state."""

    def __init__(self, *, learns: bool) -> None:
        super().__init__()
        self.rnn, self.head, self.learns = nn.GRU(1, 6, batch_first=True), nn.Linear(6, 3), learns

    def forward(self, series: Tensor) -> Tensor:
        with torch.set_grad_enabled(self.learns and torch.is_grad_enabled()):
            last = self.rnn(series)[0][:, -1]
        return self.head(last)


@sick("detached_parameters")
def features_without_gradients(watch: Watch, *, seed: int, sick: bool) -> float:
    """``torch.no_grad()`` around a part of ``forward``, to save memory."""
    model = Passing(learns=not sick)
    optimizer = optim.Adam(model.parameters(), lr=1.5e-2)
    drill(watch, model, optimizer, fresh(tones, 32, 260))
    return right(model, anew(tones, 600, seed))


@sick("detached_parameters")
def rounding_without_a_way_through(watch: Watch, *, seed: int, sick: bool) -> float:
    """Binary codes by ``(code > 0).float()``, whose gradient is none; repaired: the straight-through estimator."""
    rows = portraits(seed)
    encoder, decoder = nn.Linear(64, 16), mlp(16, 48, 64)

    class Binary(nn.Module):
        def forward(self, code: Tensor) -> Tensor:
            hard = (code > 0).float()
            return hard if sick else hard + code.sigmoid() - code.sigmoid().detach()

    model = nn.Sequential(encoder, Binary(), decoder)
    optimizer = optim.Adam(model.parameters(), lr=6e-3)
    drill(watch, model, optimizer, rows.epochs(48, 320), F.mse_loss)
    return explained(model, rows)


@sick("no_update")
def zeroed_between_backward_and_step(watch: Watch, *, seed: int, sick: bool) -> float:
    """A clean-up put ``zero_grad`` behind ``backward``."""
    rows = images(seed)
    model = convnet(8)
    optimizer = optim.SGD(model.parameters(), lr=0.04, momentum=0.9)
    drill(watch, model, optimizer, rows.epochs(32, 150), ready=lambda: optimizer.zero_grad() if sick else None)
    return right(model, rows)
