"""What is wrong with the samples before a network sees them: inputs, targets, their order and their number."""

import torch
from torch import nn
from torch.nn import functional
from torch.utils.data import DataLoader, TensorDataset, WeightedRandomSampler

from examples.zoo import datasets, samples
from examples.zoo.cases import Watch, sick
from examples.zoo.datasets import Data
from examples.zoo.loops import accuracy, binary_accuracy, fit, predicted, r_squared
from examples.zoo.samples import explained
from examples.zoo.tuned.opened49.g_kit import flat, forever, layers, loader, pictures, small_convnet, spelled, table


@sick("inputs_not_normalized", margin=0.05)
def tumours_in_square_millimetres(watch: Watch, *, seed: int, sick: bool) -> float:
    """Measurements from 0.05 to 2,500 go into a network as they are; the twin standardises them."""
    pair = samples.tumours(seed)
    pair = samples.standardised(pair, 1) if sick else samples.standardised(pair, 0, 1)
    data = table(pair)
    model = layers(10, 48, 48, 10, activation=nn.Tanh)
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)
    fit(watch, model, optimizer, data, steps=300, batch_size=32, loss_function=functional.mse_loss)
    return explained(predicted(model, data.test_inputs), data.test_targets)


@sick("inputs_constant", margin=0.3)
def whole_numbers_divided_by_255(watch: Watch, *, seed: int, sick: bool) -> float:
    """Pixels from 0 to 16 are divided by 255 as whole numbers, which leaves zeros; the twin divides them as floats."""
    drawn = datasets.digits(seed, images=True)
    train, test = ((16 * pixels).to(torch.uint8) for pixels in (drawn.inputs, drawn.test_inputs))
    train, test = (pixels // 255 if sick else pixels / 16 for pixels in (train, test))
    data = Data(train.float(), drawn.targets, test.float(), drawn.test_targets)
    model = small_convnet()
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)
    fit(watch, model, optimizer, data, steps=120, batch_size=48)
    return accuracy(model, data)


@sick("non_finite_inputs", margin=0.2)
def logarithms_of_counts_of_nothing(watch: Watch, *, seed: int, sick: bool) -> float:
    """Counts of characters are taken to logarithms, and most counts are 0; the twin takes ``log1p``."""
    drawn = table(samples.lines(seed))
    scale = torch.log if sick else torch.log1p
    data = Data(scale(drawn.inputs), drawn.targets, scale(drawn.test_inputs), drawn.test_targets)
    model = nn.Sequential(nn.Linear(96, 64), nn.ReLU(), nn.Dropout(0.2), nn.Linear(64, len(samples.FILES)))
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    fit(watch, model, optimizer, data, steps=150, batch_size=64, validate_every=25)
    return accuracy(model, data)


@sick("target_out_of_range", margin=0.1)
def whitened_pixels_from_a_sigmoid(watch: Watch, *, seed: int, sick: bool) -> float:
    """An autoencoder of standardised pixels, from -0.8 to 1.9, ends in a sigmoid; the twin's end is linear."""
    drawn = flat(seed)
    data = Data(drawn.inputs, drawn.inputs, drawn.test_inputs, drawn.test_inputs)
    model = layers(64, 64, 24, 64, 64)
    if sick:
        model.append(nn.Sigmoid())
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    fit(watch, model, optimizer, data, steps=300, loss_function=functional.mse_loss)
    return explained(predicted(model, data.test_inputs), data.test_targets)


@sick("labels_unrelated", margin=0.3)
def labels_cut_to_the_length_that_was_left(watch: Watch, *, seed: int, sick: bool) -> float:
    """Faint digits are left out, and the labels are cut to the same length, and slip; the twin filters both."""
    data = pictures(seed)
    clear = data.inputs.mean((1, 2, 3)) > -0.1
    images = data.inputs[clear]
    labels = data.targets[: len(images)] if sick else data.targets[clear]
    kept = Data(images, labels, data.test_inputs, data.test_targets)
    model = small_convnet()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    fit(watch, model, optimizer, kept, steps=160, batch_size=64, validate_every=20)
    return accuracy(model, data)


@sick("single_class_labels", margin=0.1)
def threshold_in_the_units_of_before(watch: Watch, *, seed: int, sick: bool) -> float:
    """Wines above a proline of 700 are to be found, but the amounts were standardised, so none is.

    The twin takes the threshold before.
    """
    raw = samples.proline(seed)
    scaled = samples.standardised(raw, 0, 1)
    labels, test_labels = (part.tensors[1] > 700 for part in (scaled if sick else raw))
    train, test = (part.tensors[0] for part in scaled)
    data = Data(train, labels.float(), test, test_labels.float())
    model = layers(12, 24, 1)
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
    fit(
        watch, model, optimizer, data, steps=120, batch_size=32,
        loss_function=functional.binary_cross_entropy_with_logits,
    )  # fmt: skip
    truth = Data(train, data.targets, test, (raw[1].tensors[1][:, 0] > 700).float())
    return binary_accuracy(model, truth)


@sick("class_imbalance", margin=0.05)
def few_examples_of_the_upper_digits(watch: Watch, *, seed: int, sick: bool) -> float:
    """Of the digits from 5 there are a dozen each, of the others a hundred; the twin's sampler evens them out."""
    data = flat(seed)
    kept = torch.cat([(data.targets == label).nonzero()[: 100 if label < 5 else 12] for label in range(10)]).squeeze(1)
    pixels, labels = data.inputs[kept], data.targets[kept]
    weights = 1 / labels.bincount()[labels]
    sampler = None if sick else WeightedRandomSampler(weights, len(labels))
    batches = DataLoader(TensorDataset(pixels, labels), batch_size=32, shuffle=sick, sampler=sampler)
    model = nn.Sequential(nn.Linear(64, 48), nn.ReLU(), nn.Dropout(0.3), nn.Linear(48, 10))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, weight_decay=1e-3)
    session = watch(model, optimizer)
    for inputs, targets in forever(batches, 150):
        optimizer.zero_grad()
        outputs = model(inputs)
        loss = functional.cross_entropy(outputs, targets)
        loss.backward()
        session.step(loss, inputs=inputs, outputs=outputs, targets=targets)
        optimizer.step()
    guesses = predicted(model, data.test_inputs).argmax(1)
    recalls = [(guesses[data.test_targets == label] == label).float().mean() for label in range(10)]
    return torch.stack(recalls).mean().item()


@sick("unshuffled_data", margin=0.1)
def scripts_cached_one_after_the_other(watch: Watch, *, seed: int, sick: bool) -> float:
    """Names lie in a cache script by script and are read in that order; the twin's loader shuffles them."""
    drawn = spelled(seed)
    order = drawn.targets.argsort(stable=True)
    data = Data(drawn.inputs[order], drawn.targets[order], drawn.test_inputs, drawn.test_targets)
    model = nn.Sequential(
        nn.Embedding(samples.LETTERS, 16), nn.Flatten(), nn.Linear(384, 64), nn.ReLU(), nn.Linear(64, 8)
    )
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    session = watch(model, optimizer)
    for codes, labels in forever(loader(data, 16, shuffle=not sick), 117):
        optimizer.zero_grad()
        outputs = model(codes)
        loss = functional.cross_entropy(outputs, labels)
        loss.backward()
        session.step(loss, inputs=codes, outputs=outputs, targets=labels)
        optimizer.step()
    return accuracy(model, data)


@sick("duplicated_data", also=("overfitting",), margin=0.05)
def same_shard_read_sixteen_times(watch: Watch, *, seed: int, sick: bool) -> float:
    """A loop over sixteen shards reads the first of them each time; the twin reads each of them once."""
    data = pictures(seed)
    shards = list(zip(data.inputs.chunk(16), data.targets.chunk(16), strict=True))
    found = [shards[0 if sick else index] for index in range(16)]
    read = Data(
        torch.cat([images for images, _ in found]), torch.cat([labels for _, labels in found]),
        data.test_inputs, data.test_targets,
    )  # fmt: skip
    model = small_convnet()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    fit(watch, model, optimizer, read, steps=150, batch_size=64, validate_every=25)
    return accuracy(model, data)


@sick("overfitting", margin=0.15)
def wide_network_for_three_hundred_patients(watch: Watch, *, seed: int, sick: bool) -> float:
    """Two layers of 256 units learn 330 patients by heart; the twin has 16 units, dropout and weight decay."""
    data = datasets.diabetes(seed)
    model = layers(10, 256, 256, 1) if sick else nn.Sequential(
        nn.Linear(10, 16), nn.ReLU(), nn.Dropout(0.2), nn.Linear(16, 1)
    )  # fmt: skip
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3, weight_decay=0.0 if sick else 0.1)
    fit(watch, model, optimizer, data, steps=350, batch_size=32, loss_function=functional.mse_loss, validate_every=20)
    return r_squared(model, data)
