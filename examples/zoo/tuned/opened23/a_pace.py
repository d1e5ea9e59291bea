"""Rates, starts and losses of transferred and pretrained nets, and augmentation that comes too seldom."""

import torch
from torch import nn
from torch.nn import functional
from torch.utils.data import DataLoader, TensorDataset

from examples.zoo import samples
from examples.zoo.cases import Watch, sick
from examples.zoo.loops import accuracy
from examples.zoo.tuned.opened23.a_pretext import body, centred, moved
from examples.zoo.tuned.opened23.a_stock import overlap, placed


def _pretrained(seed: int) -> nn.Sequential:
    """Returns a body that has learnt to tell by how many quarters a digit was turned."""
    trunk = body()
    model = nn.Sequential(trunk, nn.ReLU(), nn.Linear(64, 4))
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    for pictures, _ in centred(seed).batches(64, 60):
        turns = torch.randint(4, (len(pictures),))
        turned = torch.stack(
            [picture.rot90(int(turn), (-2, -1)) for picture, turn in zip(pictures, turns, strict=True)]
        )
        optimizer.zero_grad()
        functional.cross_entropy(model(turned), turns).backward()
        optimizer.step()
    return trunk


@sick("learning_rate_too_low", margin=0.1)
def a_rate_of_adam_in_plain_descent(watch: Watch, *, seed: int, sick: bool) -> float:
    """After pretraining, all is tuned by plain SGD at 3e-5, as a paper has it with Adam; the twin's rate is 0.03."""
    data = centred(seed)
    model = nn.Sequential(_pretrained(seed), nn.ReLU(), nn.Linear(64, 10))
    optimizer = torch.optim.SGD(model.parameters(), lr=3e-5 if sick else 0.03, momentum=0.9)
    session = watch(model, optimizer)
    for pictures, labels in data.batches(32, 200):
        outputs = model(pictures)
        loss = functional.cross_entropy(outputs, labels)
        optimizer.zero_grad()
        loss.backward()
        session.step(loss, inputs=pictures, outputs=outputs, targets=labels)
        optimizer.step()
    return accuracy(model, data)


@sick("poor_initialization", margin=0.03)
def a_new_head_with_unit_weights(watch: Watch, *, seed: int, sick: bool) -> float:
    """A new head is drawn by ``normal_`` with its deviation of 1, and the loss starts high; the twin's is 0.01."""
    data = centred(seed)
    model = nn.Sequential(_pretrained(seed), nn.ReLU(), nn.Linear(64, 10))
    nn.init.normal_(model[2].weight, std=1.0 if sick else 0.01)
    nn.init.zeros_(model[2].bias)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.03, momentum=0.9)
    session = watch(model, optimizer)
    for pictures, labels in data.batches(32, 150):
        outputs = model(pictures)
        loss = functional.cross_entropy(outputs, labels)
        optimizer.zero_grad()
        loss.backward()
        session.step(loss, inputs=pictures, outputs=outputs, targets=labels)
        optimizer.step()
    return accuracy(model, data)


@sick("overfitting", margin=0.03)
def augmented_once_and_kept(watch: Watch, *, seed: int, sick: bool) -> float:
    """Of 150 pictures, augmented copies are cached before the first epoch; the twin moves them anew in each step."""
    data = centred(seed)
    few = torch.randperm(len(data.inputs), generator=torch.Generator().manual_seed(seed))[:150]
    kept = TensorDataset(moved(data.inputs[few]) if sick else data.inputs[few], data.targets[few])
    model = nn.Sequential(body(96), nn.ReLU(), nn.Linear(96, 10))
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)
    session = watch(model, optimizer)
    for epoch in range(40):
        for pictures, labels in DataLoader(kept, 30, shuffle=True):
            shown = pictures if sick else moved(pictures)
            outputs = model(shown)
            loss = functional.cross_entropy(outputs, labels)
            optimizer.zero_grad()
            loss.backward()
            session.step(loss, inputs=shown, outputs=outputs, targets=labels)
            optimizer.step()
        if epoch % 4 == 3:
            with session.validating(), torch.no_grad():
                found = functional.cross_entropy(model(moved(data.test_inputs)), data.test_targets)
            session.validation(found.item())
    with torch.no_grad():
        return samples.accuracy(model(moved(data.test_inputs)), data.test_targets)


@sick("accumulation_not_averaged", also=("learning_rate_too_high", "exploding_gradients"), margin=0.05)
def sixteen_views_added(watch: Watch, *, seed: int, sick: bool) -> float:
    """The gradients of 16 views of each picture are added, each by a ``backward``; the twin takes their mean."""
    data = centred(seed)
    model = nn.Sequential(nn.Flatten(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 10))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    session = watch(model, optimizer)
    for pictures, labels in data.batches(32, 110):
        optimizer.zero_grad()
        for _ in range(16):
            views = pictures + 0.3 * torch.randn_like(pictures)
            outputs = model(views)
            loss = functional.cross_entropy(outputs, labels)
            (loss if sick else loss / 16).backward()
        session.step(loss, inputs=views, outputs=outputs, targets=labels)
        optimizer.step()
    return accuracy(model, data)


@sick("wrong_output_or_loss", margin=0.1)
def likelihood_of_scores_without_a_softmax(watch: Watch, *, seed: int, sick: bool) -> float:
    """``nll_loss`` of two channels of plain scores falls without end; the twin's get a ``log_softmax`` first."""
    train, test = placed(seed)
    model = nn.Sequential(
        nn.Conv2d(1, 12, 3, padding=1), nn.ReLU(), nn.Conv2d(12, 12, 3, padding=1), nn.ReLU(), nn.Conv2d(12, 2, 1)
    )
    optimizer = torch.optim.Adam(model.parameters(), lr=4e-3)
    session = watch(model, optimizer)
    for _ in range(7):
        for pictures, masks, _ in DataLoader(train, 32, shuffle=True):
            scores = model(pictures)
            outputs = scores if sick else functional.log_softmax(scores, dim=1)
            loss = functional.nll_loss(outputs, masks.long())
            optimizer.zero_grad()
            loss.backward()
            session.step(loss, inputs=pictures, outputs=outputs, targets=masks.long())
            optimizer.step()
    with torch.no_grad():
        scores = model(test.tensors[0])
    return overlap(scores[:, 1] - scores[:, 0], test.tensors[1])


@sick("clipping_too_strong", also=("learning_rate_too_low",), margin=0.1)
def the_clip_of_a_critics_weights(watch: Watch, *, seed: int, sick: bool) -> float:
    """0.01, to which WGAN clips its critic's weights, is taken as the largest norm of gradients; the twin's is 10."""
    train, test = placed(seed)
    model = nn.Sequential(
        nn.Conv2d(1, 12, 3, padding=1), nn.ReLU(), nn.Conv2d(12, 12, 3, padding=1), nn.ReLU(), nn.Conv2d(12, 1, 1)
    )
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    session = watch(model, optimizer)
    for _ in range(8):
        for pictures, masks, _ in DataLoader(train, 32, shuffle=True):
            outputs = model(pictures)[:, 0]
            loss = functional.binary_cross_entropy_with_logits(outputs, masks)
            optimizer.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 0.01 if sick else 10.0)
            session.step(loss, inputs=pictures, outputs=outputs, targets=masks)
            optimizer.step()
    with torch.no_grad():
        return overlap(model(test.tensors[0]), test.tensors[1])
