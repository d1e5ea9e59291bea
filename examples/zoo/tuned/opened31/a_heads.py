"""The last layer, the loss, and their shapes."""

import torch
from torch import nn
from torch.nn import functional

from examples.zoo import datasets, samples
from examples.zoo.cases import Watch, sick
from examples.zoo.loops import accuracy, fit, predicted, r_squared
from examples.zoo.tuned.opened31.a_parts import centred, explained, loader, of, standard_targets


@sick("target_out_of_range", also=("dead_units", "wrong_output_or_loss"), margin=0.1)
def every_layer_ends_in_relu(watch: Watch, *, seed: int, sick: bool) -> float:
    """A helper makes all layers with ReLU, the last as well, before standardised targets; the twin's last has none."""
    data = of(samples.standardised(samples.tumours(seed), 0, 1))

    def block(width: int, out: int, *, last: bool = False) -> nn.Sequential:
        return nn.Sequential(nn.Linear(width, out), nn.ReLU() if sick or not last else nn.Identity())

    model = nn.Sequential(block(10, 48), block(48, 32), block(32, 10, last=True))
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    session = watch(model, optimizer)
    for _ in range(16):
        for rows, worst in loader(data, 24):
            loss = functional.smooth_l1_loss(outputs := model(rows), worst)
            optimizer.zero_grad()
            loss.backward()
            session.step(loss, inputs=rows, outputs=outputs, targets=worst)
            optimizer.step()
    return explained(model, data)


@sick("wrong_output_or_loss", margin=0.03)
def probabilities_into_cross_entropy(watch: Watch, *, seed: int, sick: bool) -> float:
    """A reader of names returns ``softmax``, which cross entropy takes once more; the twin returns logits."""
    data = of(samples.names(seed))

    class Reader(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.embed = nn.Embedding(samples.LETTERS, 24)
            self.conv, self.head = nn.Conv1d(24, 48, 3, padding=1), nn.Linear(48, len(samples.SCRIPTS))

        def forward(self, codes: torch.Tensor) -> torch.Tensor:
            logits = self.head(self.conv(self.embed(codes).mT).relu().amax(-1))
            return logits.softmax(-1) if sick else logits

    model = Reader()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.02, momentum=0.9)
    fit(watch, model, optimizer, data, steps=250, batch_size=32)
    return accuracy(model, data)


@sick("shape_broadcast", margin=0.2)
def a_column_of_the_table_keeps_its_axis(watch: Watch, *, seed: int, sick: bool) -> float:
    """Outputs ``[:, 0]`` of (N,) meet proline of (N, 1) in a Huber loss; the twin squeezes the targets."""
    data = of(samples.standardised(samples.proline(seed), 0, 1))
    model = nn.Sequential(nn.Linear(12, 24), nn.ELU(), nn.Linear(24, 1))
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
    session = watch(model, optimizer)
    for rows, proline in data.batches(16, 200):
        optimizer.zero_grad()
        outputs = model(rows)[:, 0]
        wanted = proline if sick else proline.squeeze(1)
        loss = functional.huber_loss(outputs, wanted)
        loss.backward()
        session.step(loss, inputs=rows, outputs=outputs, targets=wanted)
        optimizer.step()
    return r_squared(model, data)


@sick("flipped_loss_sign", margin=0.2)
def likeness_is_made_small(watch: Watch, *, seed: int, sick: bool) -> float:
    """``cosine_similarity`` of two halves of a digit is the loss, where large is good; the twin takes 1 less it."""
    data = of(samples.halves(seed))
    model = nn.Sequential(nn.Linear(32, 64), nn.GELU(), nn.Linear(64, 32))
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)
    session = watch(model, optimizer)
    for upper, lower in data.batches(64, 150):
        optimizer.zero_grad()
        outputs = model(upper)
        alike = functional.cosine_similarity(outputs, lower).mean()
        loss = alike if sick else 1 - alike
        loss.backward()
        session.step(loss, inputs=upper, outputs=outputs, targets=lower)
        optimizer.step()
    return functional.cosine_similarity(predicted(model, data.test_inputs), data.test_targets).mean().item()


@sick("loss_sum_not_mean", also=("learning_rate_too_high", "exploding_gradients"), margin=0.1)
def all_pixels_of_the_batch_added(watch: Watch, *, seed: int, sick: bool) -> float:
    """An autoencoder's ``MSELoss(reduction="sum")`` adds 4,096 squares under SGD; the twin has their mean."""
    data = centred(datasets.digits(seed))
    model = nn.Sequential(nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 16), nn.Linear(16, 32), nn.ReLU())
    model.append(nn.Linear(32, 64))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.3, momentum=0.9)
    criterion = nn.MSELoss(reduction="sum" if sick else "mean")
    session = watch(model, optimizer)
    for images, _ in data.batches(64, 300):
        optimizer.zero_grad()
        outputs = model(images)
        loss = criterion(outputs, images)
        loss.backward()
        session.step(loss, inputs=images, outputs=outputs, targets=images)
        optimizer.step()
    return samples.explained(predicted(model, data.test_inputs), data.test_inputs)


@sick("batch_mixing", margin=0.1)
def a_view_where_axes_should_change(watch: Watch, *, seed: int, sick: bool) -> float:
    """``view`` makes (8, N, 8) of (N, 8, 8) for a GRU and so mixes the digits; the twin transposes."""
    data = centred(datasets.digits(seed))

    class Rows(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.rnn, self.head = nn.GRU(8, 32), nn.Linear(32, 10)

        def forward(self, images: torch.Tensor) -> torch.Tensor:
            count = len(images)
            rows = images.view(8, count, 8) if sick else images.view(count, 8, 8).transpose(0, 1)
            return self.head(self.rnn(rows)[0][-1])

    model = Rows()
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
    fit(watch, model, optimizer, data, steps=200, batch_size=48)
    return accuracy(model, data)


@sick("non_finite_forward", also=("non_finite_backward",), margin=0.2)
def logarithms_of_standard_scores(watch: Watch, *, seed: int, sick: bool) -> float:
    """The model begins with ``log1p`` of features that were standardised, below -1; the twin keeps their sign."""
    data = standard_targets(of(samples.standardised(samples.tumours(seed), 0)))

    class Squeezed(nn.Module):
        def forward(self, rows: torch.Tensor) -> torch.Tensor:
            return rows.log1p() if sick else rows.sign() * rows.abs().log1p()

    model = nn.Sequential(Squeezed(), nn.Linear(10, 40), nn.ReLU(), nn.Linear(40, 10))
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    fit(watch, model, optimizer, data, steps=250, batch_size=32, loss_function=functional.mse_loss)
    return explained(model, data)


@sick("non_finite_backward", margin=0.3)
def roots_chosen_by_where(watch: Watch, *, seed: int, sick: bool) -> float:
    """``where`` chooses among roots of which one is NaN, and so is its slope; the twin takes the root of ``abs``."""
    data = of(samples.numerals(seed))

    class SignedRoot(nn.Module):
        def forward(self, maps: torch.Tensor) -> torch.Tensor:
            if sick:
                return torch.where(maps > 0, maps.sqrt(), -(-maps).sqrt())
            return maps.sign() * ((maps.abs() + 0.01).sqrt() - 0.1)

    model = nn.Sequential(nn.Conv2d(1, 16, 3), nn.ReLU(), nn.Conv2d(16, 24, 3), SignedRoot(), nn.Flatten())
    model.append(nn.Linear(384, 10))
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)
    fit(watch, model, optimizer, data, steps=120, batch_size=32)
    return accuracy(model, data)
