"""Vision transformers that do not learn: rates, weights, decays, layouts and schedules taken from elsewhere."""

import torch
from torch import nn
from torch.nn import functional
from torch.utils.data import DataLoader, TensorDataset

from examples.zoo.cases import Watch, sick
from examples.zoo.loops import accuracy, fit
from examples.zoo.tuned.opened25.a_shelf import Vit, whitened


@sick("learning_rate_too_low", also=("stopped_too_early",), margin=0.2)
def the_rate_of_fine_tuning_from_scratch(watch: Watch, *, seed: int, sick: bool) -> float:
    """2e-5 is the rate at which a trained ViT is fine tuned, but this one is new; the twin takes 4e-3."""
    data = whitened(seed)
    model = Vit()
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-5 if sick else 4e-3, weight_decay=0.01)
    session = watch(model, optimizer)
    for _ in range(10):
        model.train()
        for pictures, labels in DataLoader(TensorDataset(data.inputs, data.targets), 64, shuffle=True):
            optimizer.zero_grad()
            logits = model(pictures)
            loss = functional.cross_entropy(logits, labels)
            loss.backward()
            session.step(loss, inputs=pictures, outputs=logits, targets=labels)
            optimizer.step()
        model.eval()
        with session.validating(), torch.no_grad():
            held_out = functional.cross_entropy(model(data.test_inputs), data.test_targets)
        session.validation(held_out.item())
    return accuracy(model, data)


@sick("poor_initialization", also=("exploding_gradients",), margin=0.05)
def truncated_normal_without_a_deviation(watch: Watch, *, seed: int, sick: bool) -> float:
    """``trunc_normal_(weight)`` is called without ``std``, which is then 1 for all matrices; the twin says 0.1."""
    data = whitened(seed)
    model = Vit()

    def draw(module: nn.Module) -> None:
        if isinstance(module, nn.Linear):
            nn.init.trunc_normal_(module.weight, std=1.0 if sick else 0.1)
            nn.init.zeros_(module.bias)
        if isinstance(module, nn.MultiheadAttention):
            nn.init.trunc_normal_(module.in_proj_weight, std=1.0 if sick else 0.1)

    model.apply(draw)
    optimizer = torch.optim.AdamW(model.parameters(), lr=4e-3)
    fit(watch, model, optimizer, data, steps=200)
    return accuracy(model, data)


@sick("over_regularized", margin=0.2)
def the_decay_of_adamw_in_adam(watch: Watch, *, seed: int, sick: bool) -> float:
    """A ViT's weight decay of 0.3 is meant for AdamW, and ``Adam`` adds it to the gradients; the twin has AdamW."""
    data = whitened(seed)
    model = Vit()
    kind = torch.optim.Adam if sick else torch.optim.AdamW
    optimizer = kind(model.parameters(), lr=4e-3, weight_decay=0.3)
    fit(watch, model, optimizer, data, steps=200)
    return accuracy(model, data)


@sick("batch_mixing", margin=0.05)
def attention_among_the_pictures(watch: Watch, *, seed: int, sick: bool) -> float:
    """``MultiheadAttention`` takes (L, N, E) by default, and tokens of pictures come as (N, L, E).

    The same piece of all pictures attends to itself; the twin says ``batch_first``.
    """
    data = whitened(seed)
    model = Vit(batch_first=not sick)
    optimizer = torch.optim.Adam(model.parameters(), lr=4e-3)
    fit(watch, model, optimizer, data, steps=200)
    return accuracy(model, data)


@sick("schedule_collapsed", margin=0.05)
def a_factor_of_an_epoch_with_each_batch(watch: Watch, *, seed: int, sick: bool) -> float:
    """``ExponentialLR(gamma=0.9)`` is stepped in the loop over batches; the twin steps it after each epoch."""
    data = whitened(seed)
    model = Vit()
    optimizer = torch.optim.Adam(model.parameters(), lr=4e-3)
    schedule = torch.optim.lr_scheduler.ExponentialLR(optimizer, gamma=0.9)
    session = watch(model, optimizer)
    for _ in range(10):
        for pictures, labels in DataLoader(TensorDataset(data.inputs, data.targets), 64, shuffle=True):
            logits = model(pictures)
            loss = functional.cross_entropy(logits, labels)
            optimizer.zero_grad()
            loss.backward()
            session.step(loss, inputs=pictures, outputs=logits, targets=labels)
            optimizer.step()
            if sick:
                schedule.step()
        if not sick:
            schedule.step()
    return accuracy(model, data)
