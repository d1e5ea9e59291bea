"""An encoder that was trained before gets a new head: rates, freezing, thin matrices, and schedules."""

import torch
from torch import nn
from torch.nn import functional
from torch.optim.lr_scheduler import LambdaLR
from torch.utils.data import DataLoader

from examples.zoo import samples
from examples.zoo.cases import Watch, healthy, sick
from examples.zoo.tuned.opened22.b_shared import Classifier, Thin, judged, pretrained, thinned


@sick("learning_rate_too_high", also=("missing_warmup", "exploding_gradients"), margin=0.05)
def a_rate_for_training_from_scratch(watch: Watch, *, seed: int, sick: bool) -> float:
    """An encoder that can already fill gaps is tuned by AdamW at 0.1, a value of SGD; the twin's rate is 2e-3."""
    train, test = samples.names(seed)
    model = Classifier(pretrained())
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.1 if sick else 2e-3)
    session = watch(model, optimizer)
    for _ in range(6):
        for names, labels in DataLoader(train, 32, shuffle=True):
            outputs = model(names)
            loss = functional.cross_entropy(outputs, labels)
            optimizer.zero_grad()
            loss.backward()
            session.step(loss, inputs=names, outputs=outputs, targets=labels)
            optimizer.step()
    return judged(model, test)


@sick("learning_rate_too_low", margin=0.1)
def thin_matrices_at_the_rate_of_full_tuning(watch: Watch, *, seed: int, sick: bool) -> float:
    """LoRA and a new head at 2e-5, which is for tuning all weights of a large model; the twin's rate is 5e-3."""
    train, test = samples.names(seed)
    model = Classifier(thinned(pretrained()))
    optimizer = torch.optim.AdamW([p for p in model.parameters() if p.requires_grad], lr=2e-5 if sick else 5e-3)
    session = watch(model, optimizer)
    for _ in range(8):
        for names, labels in DataLoader(train, 32, shuffle=True):
            outputs = model(names)
            loss = functional.cross_entropy(outputs, labels)
            loss.backward()
            session.step(loss, inputs=names, outputs=outputs, targets=labels)
            optimizer.step()
            optimizer.zero_grad()
    return judged(model, test)


@sick("frozen_parameters", margin=0.03)
def frozen_by_a_name_that_the_new_head_has_as_well(watch: Watch, *, seed: int, sick: bool) -> float:
    """All but LayerNorms are frozen, and so is the new head, which is not named "norm"; the twin thaws the head."""
    train, test = samples.names(seed)
    model = Classifier(pretrained())
    for name, parameter in model.named_parameters():
        parameter.requires_grad = "norm" in name or (not sick and "head" in name)
    optimizer = torch.optim.AdamW([p for p in model.parameters() if p.requires_grad], lr=5e-3)
    session = watch(model, optimizer)
    for _ in range(8):
        for names, labels in DataLoader(train, 32, shuffle=True):
            optimizer.zero_grad()
            outputs = model(names)
            loss = functional.cross_entropy(outputs, labels)
            loss.backward()
            session.step(loss, inputs=names, outputs=outputs, targets=labels)
            optimizer.step()
    return judged(model, test)


@sick("schedule_collapsed", margin=0.05)
def the_second_stage_goes_on_with_the_first_ones_schedule(watch: Watch, *, seed: int, sick: bool) -> float:
    """The head's two epochs used the schedule up, and all epochs after the thaw are at 0; the twin counts all epochs.

    Both thaw the encoder after two epochs, in the same optimizer.
    """
    train, test = samples.names(seed)
    model = Classifier(pretrained())
    model.encoder.requires_grad_(False)
    loader = DataLoader(train, 32, shuffle=True)
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    total = len(loader) * (2 if sick else 7)
    schedule = LambdaLR(optimizer, lambda step: max(0.0, 1 - step / total))
    session = watch(model, optimizer)
    for epoch in range(7):
        if epoch == 2:
            model.encoder.requires_grad_(True)
        for names, labels in loader:
            outputs = model(names)
            loss = functional.cross_entropy(outputs, labels)
            optimizer.zero_grad()
            loss.backward()
            session.step(loss, inputs=names, outputs=outputs, targets=labels)
            optimizer.step()
            schedule.step()
    return judged(model, test)


@sick("no_update", margin=0.2)
def a_warm_up_that_is_made_and_never_stepped(watch: Watch, *, seed: int, sick: bool) -> float:
    """A linear warm-up starts at a rate of 0, and ``schedule.step()`` was forgotten; the twin calls it."""
    train, test = samples.names(seed)
    model = Classifier(pretrained())
    loader = DataLoader(train, 32, shuffle=True)
    total = 6 * len(loader)
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3, weight_decay=0.01)
    schedule = LambdaLR(optimizer, lambda step: min(step / 20, (total - step) / (total - 20)))
    session = watch(model, optimizer)
    for _ in range(6):
        model.train()
        for names, labels in loader:
            outputs = model(names)
            loss = functional.cross_entropy(outputs, labels)
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            session.step(loss, inputs=names, outputs=outputs, targets=labels)
            optimizer.step()
            if not sick:
                schedule.step()
            model.zero_grad()
    return judged(model, test)


@healthy(at_least=0.4)
def thin_matrices_beside_an_encoder_at_rest(watch: Watch, *, seed: int) -> float:
    """LoRA in all feed-forward layers and a head: nine of ten weights are frozen on purpose; the rate decays to 0."""
    train, test = samples.names(seed)
    model = Classifier(thinned(pretrained()))
    matrices = [p for module in model.modules() if isinstance(module, Thin) for p in (module.down, module.up)]
    loader = DataLoader(train, 32, shuffle=True)
    optimizer = torch.optim.AdamW([{"params": matrices, "lr": 5e-3}, {"params": model.head.parameters(), "lr": 1e-2}])
    schedule = torch.optim.lr_scheduler.LinearLR(optimizer, 1.0, 0.0, total_iters=8 * len(loader))
    session = watch(model, optimizer)
    for _ in range(8):
        for names, labels in loader:
            optimizer.zero_grad()
            outputs = model(names)
            loss = functional.cross_entropy(outputs, labels)
            loss.backward()
            session.step(loss, inputs=names, outputs=outputs, targets=labels)
            optimizer.step()
            schedule.step()
    return judged(model, test)
