"""Clipping, accumulation, averaged weights, resumption, modes and precision that go wrong."""

import copy

import torch
from torch import nn
from torch.nn import functional
from torch.utils.data import DataLoader

from examples.zoo import datasets, samples
from examples.zoo.cases import Watch, sick
from examples.zoo.loops import accuracy, predicted, r_squared


@sick("clipping_too_strong")
def each_gradient_clipped_to_a_ten_thousandth(watch: Watch, *, seed: int, sick: bool) -> float:
    """``clip_grad_value_`` got 1e-4, a rate from another line of the configuration; the twin has 1."""
    data = datasets.digits(seed)
    model = nn.Sequential(nn.Linear(64, 40), nn.Tanh(), nn.Linear(40, 10))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9, nesterov=True)
    session = watch(model, optimizer)
    for images, labels in data.batches(64, 220):
        logits = model(images)
        loss = functional.cross_entropy(logits, labels)
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_value_(model.parameters(), 1e-4 if sick else 1.0)
        session.step(loss, inputs=images, outputs=logits, targets=labels)
        optimizer.step()
    return accuracy(model, data)


@sick("clipping_too_strong")
def a_norm_for_a_loss_of_another_size(watch: Watch, *, seed: int, sick: bool) -> float:
    """Targets are whole, with gradients in the thousands, and are clipped to 0.1; the twin's bound is 1,000."""
    data = datasets.diabetes(seed, raw_targets=True)
    model = nn.Sequential(nn.Linear(10, 24), nn.Tanh(), nn.Linear(24, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=3e-3)
    session = watch(model, optimizer)
    for patients, illness in data.batches(33, 300):
        outputs = model(patients)
        loss = functional.mse_loss(outputs, illness)
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 0.1 if sick else 1000.0)
        session.step(loss, inputs=patients, outputs=outputs, targets=illness)
        optimizer.step()
    return r_squared(model, data)


@sick("accumulation_not_averaged", also=("learning_rate_too_high", "exploding_gradients"))
def ten_windows_of_text_added_up(watch: Watch, *, seed: int, sick: bool) -> float:
    """Ten small batches are accumulated for a step, and their losses are not divided by ten."""
    data = datasets.text(seed, length=10)
    embed, rnn = nn.Embedding(datasets.CHARACTERS, 32), nn.GRU(32, 48, batch_first=True)
    head = nn.Linear(48, datasets.CHARACTERS)
    model = nn.ModuleDict({"embed": embed, "rnn": rnn, "head": head})
    optimizer = torch.optim.SGD(model.parameters(), lr=0.8, momentum=0.9)
    session = watch(model, optimizer)
    for number, (codes, following) in enumerate(data.batches(6, 10 * 70), 1):
        logits = head(rnn(embed(codes))[0]).flatten(0, 1)
        loss = functional.cross_entropy(logits, following.flatten())
        (loss if sick else loss / 10).backward()
        if number % 10 == 0:
            session.step(loss, inputs=codes, outputs=logits, targets=following.flatten())
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)
    with torch.no_grad():
        found = head(rnn(embed(data.test_inputs))[0]).argmax(-1)
    return (found == data.test_targets).float().mean().item()


@sick("no_update", also=("learning_rate_too_low",))
def averaged_weights_copied_back(watch: Watch, *, seed: int, sick: bool) -> float:
    """Weights averaged with 0.999 are copied back after each step, not for the test alone: nothing gets away."""
    data = datasets.digits(seed)
    model = nn.Sequential(nn.Linear(64, 48), nn.GELU(), nn.Linear(48, 10))
    averaged = torch.optim.swa_utils.AveragedModel(
        model, multi_avg_fn=torch.optim.swa_utils.get_ema_multi_avg_fn(0.999), use_buffers=True
    )
    averaged.update_parameters(model)
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    session = watch(model, optimizer)
    for images, labels in data.batches(60, 200):
        logits = model(images)
        loss = functional.cross_entropy(logits, labels)
        optimizer.zero_grad()
        loss.backward()
        session.step(loss, inputs=images, outputs=logits, targets=labels)
        optimizer.step()
        averaged.update_parameters(model)
        if sick:
            model.load_state_dict(averaged.module.state_dict())
    return accuracy(model, data)


@sick("no_update", also=("schedule_collapsed", "learning_rate_too_low"))
def resumed_with_a_rate_of_zero(watch: Watch, *, seed: int, sick: bool) -> float:
    """A model that read even digits goes on to all, with the optimizer's state of a schedule that ended at zero."""
    data = datasets.digits(seed)
    model = nn.Sequential(nn.Linear(64, 48), nn.ReLU(), nn.Linear(48, 10))
    optimizer = torch.optim.AdamW(model.parameters(), lr=4e-3)
    scheduler = torch.optim.lr_scheduler.PolynomialLR(optimizer, 80)
    even = data.targets % 2 == 0
    first = datasets.Data(data.inputs[even], data.targets[even], data.test_inputs, data.test_targets)
    for images, labels in first.batches(64, 80):
        optimizer.zero_grad()
        functional.cross_entropy(model(images), labels).backward()
        optimizer.step()
        scheduler.step()
    checkpoint = copy.deepcopy(optimizer.state_dict())
    optimizer = torch.optim.AdamW(model.parameters(), lr=4e-3)
    if sick:
        optimizer.load_state_dict(checkpoint)
    session = watch(model, optimizer)
    for images, labels in data.batches(64, 160):
        logits = model(images)
        loss = functional.cross_entropy(logits, labels)
        optimizer.zero_grad()
        loss.backward()
        session.step(loss, inputs=images, outputs=logits, targets=labels)
        optimizer.step()
    return accuracy(model, data)


@sick("wrong_mode")
def validated_once_and_never_back_in_train_mode(watch: Watch, *, seed: int, sick: bool) -> float:
    """A validation before the first epoch sets ``eval``: batch norm keeps its first statistics, on raw columns."""
    data = datasets.breast_cancer(seed, raw=True)
    model = nn.Sequential(nn.BatchNorm1d(30), nn.Linear(30, 24), nn.BatchNorm1d(24), nn.ReLU(), nn.Linear(24, 2))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    session = watch(model, optimizer)
    for _ in range(12):
        model.eval()
        with torch.no_grad(), session.validating():
            session.validation(functional.cross_entropy(model(data.test_inputs), data.test_targets).item())
        if not sick:
            model.train()
        for rows, labels in data.batches(32, 13):
            logits = model(rows)
            loss = functional.cross_entropy(logits, labels)
            optimizer.zero_grad()
            loss.backward()
            session.step(loss, inputs=rows, outputs=logits, targets=labels)
            optimizer.step()
    return accuracy(model, data)


@sick("frozen_parameters")
def thawed_by_names_of_a_wrapped_model(watch: Watch, *, seed: int, sick: bool) -> float:
    """Layers are thawed by names with "module.", which the model has only when it is wrapped; none but the head is."""
    train, test = samples.names(seed)
    model = nn.Sequential(nn.Embedding(samples.LETTERS, 3), nn.Flatten(), nn.Linear(72, 8), nn.Tanh(), nn.Linear(8, 8))
    prefix = "module." if sick else ""
    for name, parameter in model.named_parameters():
        parameter.requires_grad_(name.startswith("4."))
    for name, parameter in model.named_parameters():
        if name.startswith((f"{prefix}0.", f"{prefix}2.")):
            parameter.requires_grad_(True)
    optimizer = torch.optim.Adam((one for one in model.parameters() if one.requires_grad), lr=8e-3)
    session = watch(model, optimizer)
    for _ in range(15):
        for names, labels in DataLoader(train, batch_size=40, shuffle=True):
            logits = model(names)
            loss = functional.cross_entropy(logits, labels)
            optimizer.zero_grad()
            loss.backward()
            session.step(loss, inputs=names, outputs=logits, targets=labels)
            optimizer.step()
    with torch.no_grad():
        return samples.accuracy(model(test.tensors[0]), test.tensors[1])


@sick("parameters_not_in_optimizer", also=("no_update",))
def an_optimizer_of_the_model_before_its_copy(watch: Watch, *, seed: int, sick: bool) -> float:
    """The model is copied when the optimizer exists: the optimizer steps the original, the loop trains the copy."""
    data = datasets.wine(seed)
    model = nn.Sequential(nn.Linear(13, 20), nn.SiLU(), nn.Linear(20, 3))
    optimizer = torch.optim.RMSprop(model.parameters(), lr=2e-3)
    model = copy.deepcopy(model)
    if not sick:
        optimizer = torch.optim.RMSprop(model.parameters(), lr=2e-3)
    session = watch(model, optimizer)
    for rows, kinds in data.batches(27, 120):
        logits = model(rows)
        loss = functional.cross_entropy(logits, kinds)
        model.zero_grad()
        loss.backward()
        session.step(loss, inputs=rows, outputs=logits, targets=kinds)
        optimizer.step()
    return accuracy(model, data)


@sick("fp16_underflow")
def a_small_loss_without_a_scaler(watch: Watch, *, seed: int, sick: bool) -> float:
    """Autocast to float16 and a loss with a weight of 1e-4: gradients round to zero; the twin has a scaler."""
    train, test = samples.halves(seed)
    model = nn.Sequential(nn.Linear(32, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 32))
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3, eps=1e-15)
    scaler = torch.amp.GradScaler("cpu", enabled=not sick)
    session = watch(model, optimizer, scaler=scaler)
    for _ in range(16):
        for uppers, lowers in DataLoader(train, batch_size=64, shuffle=True):
            with torch.autocast("cpu", torch.float16):
                outputs = model(uppers)
            loss = 1e-4 * functional.mse_loss(outputs.float(), lowers)
            optimizer.zero_grad()
            scaler.scale(loss).backward()
            session.step(loss, inputs=uppers, outputs=outputs, targets=lowers)
            scaler.step(optimizer)
            scaler.update()
    return samples.explained(predicted(model, test.tensors[0]), test.tensors[1])
