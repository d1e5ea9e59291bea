"""Tables of tumours, wines and patients, and places in a picture."""

import torch
from sklearn.datasets import load_breast_cancer
from torch import nn
from torch.nn import functional

from examples.zoo import datasets, samples
from examples.zoo.cases import Watch, sick
from examples.zoo.datasets import Data
from examples.zoo.loops import accuracy, binary_accuracy, fit, r_squared
from examples.zoo.tuned.opened34.b_common import explained, parted, squares


@sick("non_finite_inputs", also=("non_finite_forward", "non_finite_backward"), margin=0.3)
def ratios_to_tumours_without_concavity(watch: Watch, *, seed: int, sick: bool) -> float:
    """Thirteen tumours have no concavity, and a ratio to it is 0 / 0; the twin adds a hundredth below."""
    values, labels = (torch.from_numpy(one).float() for one in load_breast_cancer(return_X_y=True))
    floor = 0.0 if sick else 1e-2
    ratios = values[:, 20:] / (values[:, :10] + floor)
    train, test = samples.standardised(samples.split(seed, ratios, labels[:, None]), 0)
    data = Data(*train.tensors, *test.tensors)
    model = nn.Sequential(nn.Linear(10, 32), nn.ReLU(), nn.Dropout(0.2), nn.Linear(32, 1))
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3, weight_decay=0.05)
    fit(
        watch,
        model,
        optimizer,
        data,
        steps=200,
        batch_size=32,
        loss_function=functional.binary_cross_entropy_with_logits,
    )
    return binary_accuracy(model, Data(data.inputs, data.targets, data.test_inputs, data.test_targets[:, 0]))


@sick("single_class_labels", margin=0.2)
def labels_that_were_thought_to_begin_at_one(watch: Watch, *, seed: int, sick: bool) -> float:
    """Labels 0 and 1 are asked for being 2, as if they were 1 and 2, so all are 0; the twin asks for 1."""
    drawn = datasets.breast_cancer(seed)
    targets = (drawn.targets == (2 if sick else 1)).float()[:, None]
    data = Data(drawn.inputs, targets, drawn.test_inputs, drawn.test_targets[:, None])
    model = nn.Sequential(nn.Linear(30, 24), nn.ReLU(), nn.Dropout(0.3), nn.Linear(24, 1))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, weight_decay=0.1)
    fit(
        watch,
        model,
        optimizer,
        data,
        steps=200,
        batch_size=32,
        loss_function=functional.binary_cross_entropy_with_logits,
    )
    return binary_accuracy(model, Data(data.inputs, data.targets, data.test_inputs, data.test_targets[:, 0]))


@sick("overfitting", margin=0.05)
def products_of_three_features(watch: Watch, *, seed: int, sick: bool) -> float:
    """A network learns 332 patients by heart from 285 products of features; the twin has few units and a decay."""
    drawn = datasets.diabetes(seed)

    def products(values: torch.Tensor) -> torch.Tensor:
        pairs = torch.combinations(torch.arange(10), 2, with_replacement=True)
        triples = torch.combinations(torch.arange(10), 3, with_replacement=True)
        return torch.cat([values, values[:, pairs].prod(2), values[:, triples].prod(2)], 1).clamp(-4, 4)

    if sick:
        data = Data(products(drawn.inputs), drawn.targets, products(drawn.test_inputs), drawn.test_targets)
        model = nn.Sequential(nn.Linear(285, 128), nn.ReLU(), nn.Linear(128, 1))
    else:
        data = drawn
        model = nn.Sequential(nn.Linear(10, 12), nn.ReLU(), nn.Linear(12, 1))
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3, weight_decay=0.0 if sick else 0.5)
    fit(watch, model, optimizer, data, steps=240, batch_size=32, loss_function=functional.mse_loss, validate_every=20)
    return r_squared(model, data)


@sick("inputs_not_normalized", also=("saturated_units",), margin=0.1)
def places_in_pixels(watch: Watch, *, seed: int, sick: bool) -> float:
    """A network gets rows and columns from 0 to 255 and says how bright it is there; the twin scales them."""
    picture = squares(seed, side=160, count=1)[0, 0]
    light = functional.avg_pool2d(picture[None, None], 7, 1, 3)[0, 0]
    places = torch.cartesian_prod(torch.arange(160), torch.arange(160))[::7]
    values = light.flatten()[::7, None]
    values = (values - values.mean()) / values.std()
    data = parted(places.float() if sick else (places - 79.5) / 46.2, values, seed)
    model = nn.Sequential(nn.Linear(2, 64), nn.Tanh(), nn.Linear(64, 64), nn.Tanh(), nn.Linear(64, 1))
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    fit(watch, model, optimizer, data, steps=400, batch_size=128, loss_function=functional.mse_loss)
    return explained(model, data)


@sick("wrong_mode", margin=0.03)
def eval_is_called_before_the_first_epoch(watch: Watch, *, seed: int, sick: bool) -> float:
    """A check of the validation puts the model into eval mode, and nobody back, so raw columns stay; the twin does."""
    data = datasets.wine(seed, raw=True)
    model = nn.Sequential(
        nn.BatchNorm1d(13), nn.Linear(13, 32), nn.BatchNorm1d(32), nn.ReLU(), nn.Dropout(0.2), nn.Linear(32, 3)
    )
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3, weight_decay=0.1)
    session = watch(model, optimizer)
    model.eval()
    with torch.no_grad():
        session.validation(functional.cross_entropy(model(data.test_inputs), data.test_targets).item())
    if not sick:
        model.train()
    for wines, labels in data.batches(32, 180):
        optimizer.zero_grad()
        outputs = model(wines)
        loss = functional.cross_entropy(outputs, labels)
        loss.backward()
        session.step(loss, inputs=wines, outputs=outputs, targets=labels)
        optimizer.step()
    return accuracy(model, data)


@sick("learning_rate_too_high", also=("dead_units", "exploding_gradients"), margin=0.05)
def the_rate_of_a_linear_model_for_a_deep_one(watch: Watch, *, seed: int, sick: bool) -> float:
    """Adam's 0.2 was fine for a linear regression of ten columns, and stays for four layers; the twin has 0.002."""
    train, test = samples.standardised(samples.tumours(seed), 0, 1)
    data = Data(*train.tensors, *test.tensors)
    model = nn.Sequential(nn.Linear(10, 48), nn.ReLU(), nn.Linear(48, 48), nn.ReLU(), nn.Linear(48, 48), nn.ReLU())
    model.append(nn.Linear(48, 10))
    optimizer = torch.optim.Adam(model.parameters(), lr=0.2 if sick else 2e-3)
    fit(watch, model, optimizer, data, steps=300, batch_size=32, loss_function=functional.mse_loss, validate_every=50)
    return explained(model, data)
