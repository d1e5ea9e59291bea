"""What is wrong with the data: its scale, its order, its labels."""

import torch
from sklearn.datasets import load_digits
from torch import nn
from torch.nn import functional

from examples.zoo import datasets, samples
from examples.zoo.cases import Watch, sick
from examples.zoo.datasets import Data
from examples.zoo.loops import accuracy, fit, held_out_loss, r_squared
from examples.zoo.tuned.opened31.a_parts import Writer, balanced, centred, each, loader, of, right


@sick("inputs_not_normalized", also=("learning_rate_too_high", "dead_units", "exploding_gradients"), margin=0.1)
def wines_in_their_units(watch: Watch, *, seed: int, sick: bool) -> float:
    """Magnesium near 100 and ashes near 2 predict proline as they were measured; the twin standardises them."""
    pair = samples.standardised(samples.proline(seed), 1)
    data = of(pair if sick else samples.standardised(pair, 0))
    model = nn.Sequential(nn.Linear(12, 32), nn.ReLU(), nn.Linear(32, 16), nn.ReLU(), nn.Linear(16, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
    session = watch(model, optimizer)
    for _ in range(25):
        for rows, proline in loader(data, 16):
            outputs = model(rows)
            loss = functional.mse_loss(outputs, proline)
            optimizer.zero_grad()
            loss.backward()
            session.step(loss, inputs=rows, outputs=outputs, targets=proline)
            optimizer.step()
        session.validation(held_out_loss(model, data, functional.mse_loss))
    return r_squared(model, data)


@sick("inputs_constant", margin=0.3)
def divided_in_whole_numbers(watch: Watch, *, seed: int, sick: bool) -> float:
    """Pixels of bytes are divided by ``// 255``, which leaves zeros; the twin divides by ``/ 255``."""
    pixels, labels = load_digits(return_X_y=True)
    whole = torch.from_numpy(pixels * 15).to(torch.uint8).view(-1, 1, 8, 8)
    images = (whole // 255 if sick else whole / 255).float()
    data = of(samples.split(seed, images, torch.from_numpy(labels)))
    model = nn.Sequential(nn.Conv2d(1, 12, 3), nn.ReLU(), nn.Conv2d(12, 16, 3), nn.ReLU(), nn.Flatten())
    model.append(nn.Linear(256, 10))
    optimizer = torch.optim.AdamW(model.parameters(), lr=4e-3)
    fit(watch, model, optimizer, data, steps=160, batch_size=32)
    return accuracy(model, data)


@sick("non_finite_inputs", also=("non_finite_forward", "non_finite_backward"), margin=0.3)
def borders_that_are_always_white(watch: Watch, *, seed: int, sick: bool) -> float:
    """Each pixel is divided by its deviation, 0 at the border; the twin adds a little to it."""
    raw = datasets.digits(seed)
    std, mean = torch.std_mean(raw.inputs, 0)
    scale = std + (0.0 if sick else 0.1)
    data = Data((raw.inputs - mean) / scale, raw.targets, (raw.test_inputs - mean) / scale, raw.test_targets)
    model = nn.Sequential(nn.Linear(64, 48), nn.GELU(), nn.Linear(48, 10))
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    fit(watch, model, optimizer, data, steps=150, batch_size=48)
    return accuracy(model, data)


@sick("labels_unrelated", margin=0.3)
def two_loaders_that_shuffle(watch: Watch, *, seed: int, sick: bool) -> float:
    """Images and labels come from two loaders, each of which shuffles; the twin has one loader of both."""
    data = of(samples.numerals(seed))
    model = nn.Sequential(
        nn.Conv2d(1, 16, 3, stride=2), nn.BatchNorm2d(16), nn.ReLU(), nn.Flatten(), nn.Linear(144, 10)
    )
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    session = watch(model, optimizer)
    for _ in range(8):
        if sick:
            images_first = torch.utils.data.DataLoader(data.inputs, 48, shuffle=True)
            pairs = zip(images_first, torch.utils.data.DataLoader(data.targets, 48, shuffle=True), strict=True)
        else:
            pairs = loader(data, 48)
        for images, labels in pairs:
            optimizer.zero_grad()
            logits = model(images)
            loss = functional.cross_entropy(logits, labels)
            loss.backward()
            session.step(loss, inputs=images, outputs=logits, targets=labels)
            optimizer.step()
        session.validation(held_out_loss(model, data))
    return accuracy(model, data)


@sick("single_class_labels", also=("class_imbalance", "labels_unrelated"), margin=0.2)
def the_third_kind_counted_from_one(watch: Watch, *, seed: int, sick: bool) -> float:
    """The third kind of wine is sought by ``== 3`` though kinds count from 0, so none is; the twin has ``== 2``."""
    kinds = datasets.wine(seed)
    truth, test = ((one == 2).float()[:, None] for one in (kinds.targets, kinds.test_targets))
    data = Data(kinds.inputs, (kinds.targets == 3).float()[:, None] if sick else truth, kinds.test_inputs, test)
    model = nn.Sequential(nn.Linear(13, 16), nn.Tanh(), nn.Linear(16, 1))
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
    loss_function = nn.BCEWithLogitsLoss()
    fit(watch, model, optimizer, data, steps=150, batch_size=16, loss_function=loss_function)
    return balanced(model, data)


@sick("overfitting", margin=0.03)
def forty_windows_of_python(watch: Watch, *, seed: int, sick: bool) -> float:
    """A ``[:40]`` from the time of debugging leaves 40 windows of text for all epochs; the twin has all of them."""
    data = datasets.text(seed, length=16)
    if sick:
        data = Data(data.inputs[:40], data.targets[:40], data.test_inputs, data.test_targets)
    model = Writer()
    optimizer = torch.optim.Adam(model.parameters(), lr=4e-3)
    fit(watch, model, optimizer, data, steps=240, batch_size=20, loss_function=each, validate_every=20)
    return right(model, data)


@sick("class_imbalance", margin=0.03)
def one_digit_in_fifty(watch: Watch, *, seed: int, sick: bool) -> float:
    """Few nines are left among nine other digits, hidden by noise, and none is found; the twin weighs them."""
    whole = centred(datasets.digits(seed))
    random = torch.Generator().manual_seed(seed)
    nine = whole.targets == 9
    kept = ~nine | (nine.cumsum(0) <= 24)
    noise = [1.2 * torch.randn(rows.shape, generator=random) for rows in (whole.inputs, whole.test_inputs)]
    truth, test = ((labels == 9).float()[:, None] for labels in (whole.targets, whole.test_targets))
    data = Data((whole.inputs + noise[0])[kept], truth[kept], whole.test_inputs + noise[1], test)
    model = nn.Sequential(nn.Linear(64, 1))
    weight = None if sick else torch.tensor(float(len(data.targets) / data.targets.sum() - 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.03, momentum=0.9)
    loss_function = nn.BCEWithLogitsLoss(pos_weight=weight)
    fit(watch, model, optimizer, data, steps=250, batch_size=64, loss_function=loss_function)
    return balanced(model, data)


@sick("unshuffled_data", margin=0.03)
def one_folder_of_digits_after_the_other(watch: Watch, *, seed: int, sick: bool) -> float:
    """Images lie in a folder for each class, and the loader does not shuffle; the twin's does."""
    data = of(samples.numerals(seed))
    order = data.targets.argsort(stable=True)
    data = Data(data.inputs[order], data.targets[order], data.test_inputs, data.test_targets)
    model = nn.Sequential(nn.Conv2d(1, 12, 3), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(108, 10))
    optimizer = torch.optim.Adam(model.parameters(), lr=8e-3)
    session = watch(model, optimizer)
    for _ in range(8):
        for images, labels in loader(data, 32, shuffle=not sick):
            optimizer.zero_grad()
            logits = model(images)
            loss = functional.cross_entropy(logits, labels)
            loss.backward()
            session.step(loss, inputs=images, outputs=logits, targets=labels)
            optimizer.step()
    return accuracy(model, data)


@sick("duplicated_data", also=("overfitting",), margin=0.05)
def the_same_random_rows_each_epoch(watch: Watch, *, seed: int, sick: bool) -> float:
    """Each epoch seeds anew and takes four random batches, always the same; the twin seeds once."""
    data = of(samples.lines(seed))
    data = Data(data.inputs.log1p(), data.targets, data.test_inputs.log1p(), data.test_targets)
    model = nn.Sequential(nn.Linear(96, 48), nn.ReLU(), nn.Dropout(0.3), nn.Linear(48, 6))
    optimizer = torch.optim.AdamW(model.parameters(), lr=4e-3)
    random = torch.Generator().manual_seed(seed)
    session = watch(model, optimizer)
    for _ in range(60):
        if sick:
            random.manual_seed(seed)
        for chosen in torch.randperm(len(data.inputs), generator=random)[:128].split(32):
            optimizer.zero_grad()
            logits = model(data.inputs[chosen])
            loss = functional.cross_entropy(logits, data.targets[chosen])
            loss.backward()
            session.step(loss, inputs=data.inputs[chosen], outputs=logits, targets=data.targets[chosen])
            optimizer.step()
        session.validation(held_out_loss(model, data))
    return accuracy(model, data)
