"""Sound trainings that look odd: makers, codes, rewards and teachers."""

import torch
from torch import nn
from torch.nn import functional

from examples.zoo import samples
from examples.zoo.cases import Watch, healthy
from examples.zoo.loops import accuracy, fit, predicted
from examples.zoo.tuned.opened36.b_cut import Towers, retrieved
from examples.zoo.tuned.opened36.b_ends import Tagger
from examples.zoo.tuned.opened36.b_stock import colours, crops, explained, pairs, parted, ratings, shelves, tags


@healthy(at_least=0.4)
def names_find_their_docstrings(watch: Watch, *, seed: int) -> float:
    """Two towers under a contrastive loss, which begins at the logarithm of the batch's size. Quality: first of 20."""
    data = pairs(seed)
    model = Towers()
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3, weight_decay=0.1)
    session = watch(model, optimizer)
    for names, texts in data.batches(55, 150):
        outputs, targets = model(names, texts), torch.arange(len(names))
        loss = (functional.cross_entropy(outputs, targets) + functional.cross_entropy(outputs.T, targets)) / 2
        optimizer.zero_grad()
        loss.backward()
        session.step(loss, inputs=names, outputs=outputs, targets=targets)
        optimizer.step()
    return retrieved(model, data)


@healthy(at_least=0.5)
def a_recommender_with_rows_at_rest(watch: Watch, *, seed: int) -> float:
    """Most rows of a recommender's tables have no gradient in a step, and its optimizer is for sparse ones."""
    data = ratings(seed)
    row, column = nn.Embedding(400, 9, sparse=True), nn.Embedding(int(data.inputs[:, 1].max()) + 1, 9, sparse=True)
    for table in (row, column):
        nn.init.normal_(table.weight, 0, 0.3)

    class Product(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.row, self.column = row, column

        def forward(self, where: torch.Tensor) -> torch.Tensor:
            left, right = self.row(where[:, 0]), self.column(where[:, 1])
            return (left[:, :8] * right[:, :8]).sum(1, keepdim=True) + right[:, 8:]

    model = Product()
    optimizer = torch.optim.SparseAdam(list(model.parameters()), lr=0.02)
    fit(watch, model, optimizer, data, steps=350, batch_size=256, loss_function=functional.mse_loss)
    return explained(model, data)


@healthy(at_least=0.75)
def a_student_of_a_teacher_that_rests(watch: Watch, *, seed: int) -> float:
    """A small student takes a larger net's soft answers and sees no labels; the teacher is part of the model."""
    data = shelves(seed)
    teacher = nn.Sequential(nn.Linear(256, 128), nn.ReLU(), nn.Dropout(0.3), nn.Linear(128, 6))
    adam = torch.optim.Adam(teacher.parameters(), lr=2e-3)
    for rows, files in data.batches(32, 100):
        adam.zero_grad()
        functional.cross_entropy(teacher(rows), files).backward()
        adam.step()
    teacher.eval().requires_grad_(False)
    student = nn.Sequential(nn.Linear(256, 20), nn.ReLU(), nn.Linear(20, 6))
    optimizer = torch.optim.Adam(student.parameters(), lr=3e-3)
    session = watch(student, optimizer)
    for rows, _ in data.batches(32, 250):
        wanted = (teacher(rows) / 2).log_softmax(1)
        outputs = student(rows)
        loss = 4 * functional.kl_div((outputs / 2).log_softmax(1), wanted, reduction="batchmean", log_target=True)
        optimizer.zero_grad()
        loss.backward()
        session.step(loss, inputs=rows, outputs=outputs, targets=wanted)
        optimizer.step()
    return accuracy(student, data)


@healthy(at_least=0.4)
def colours_of_pixels_by_a_mixture(watch: Watch, *, seed: int) -> float:
    """A mixture of three normal distributions says a patch's tint; its loss goes below 0. Quality: R² of the mean."""
    grey, tints = colours(crops(seed, count=2000))
    data = parted(grey.flatten(1), tints[:, :1].mean((2, 3)), seed)
    model = nn.Sequential(nn.Linear(64, 64), nn.Tanh(), nn.Linear(64, 9))
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)

    def surprise(outputs: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        shares, means, spreads = outputs.chunk(3, 1)
        normal = torch.distributions.Normal(means, functional.softplus(spreads) + 0.05)
        return -(shares.log_softmax(1) + normal.log_prob(targets)).logsumexp(1).mean()

    fit(watch, model, optimizer, data, steps=350, batch_size=64, loss_function=surprise, validate_every=70)
    shares, means, _ = predicted(model, data.test_inputs).chunk(3, 1)
    return samples.explained((shares.softmax(1) * means).sum(1, keepdim=True), data.test_targets)


@healthy(at_least=0.8)
def rewards_for_the_right_file(watch: Watch, *, seed: int) -> float:
    """A policy names a docstring's file, and learns from being right or wrong alone, against a moving baseline."""
    data = shelves(seed)
    model = nn.Sequential(nn.Linear(256, 48), nn.Tanh(), nn.Linear(48, 6))
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    baseline = 1 / 6
    session = watch(model, optimizer)
    for rows, files in data.batches(64, 400):
        choice = torch.distributions.Categorical(logits=model(rows))
        actions = choice.sample()
        rewards = (actions == files).float()
        loss = -(choice.log_prob(actions) * (rewards - baseline)).mean() - 0.01 * choice.entropy().mean()
        baseline = 0.9 * baseline + 0.1 * rewards.mean().item()
        optimizer.zero_grad()
        loss.backward()
        session.step(loss, inputs=rows, outputs=choice.logits)
        optimizer.step()
    return accuracy(model, data)


@healthy(at_least=0.72)
def characters_with_a_third_of_them_masked(watch: Watch, *, seed: int) -> float:
    """A tagger's loss leaves two thirds of the places out with -100. Quality: the accuracy at all places."""
    data = tags(seed)
    model = Tagger()
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
    session = watch(model, optimizer)
    for characters, kinds in data.batches(24, 200):
        targets = torch.where(torch.rand(kinds.shape) < 1 / 3, kinds, -100)
        outputs = model(characters)
        loss = functional.cross_entropy(outputs.flatten(0, 1), targets.flatten(), ignore_index=-100)
        optimizer.zero_grad()
        loss.backward()
        session.step(loss, inputs=characters, outputs=outputs, targets=targets)
        optimizer.step()
    return (predicted(model, data.test_inputs).argmax(-1) == data.test_targets).float().mean().item()


@healthy(at_least=0.6)
def a_denoiser_at_all_levels_of_noise(watch: Watch, *, seed: int) -> float:
    """A diffusion's net says the noise in patches at levels drawn anew; its loss stays noisy. Quality: R² of it."""
    grey = crops(seed).mean(1).flatten(1)
    grey = (grey - grey.mean()) / grey.std()
    data = parted(grey, grey, seed)
    model = nn.Sequential(nn.Linear(65, 128), nn.SiLU(), nn.Linear(128, 128), nn.SiLU(), nn.Linear(128, 64))
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3)

    def noisy(pixels: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        level, noise = torch.rand(len(pixels), 1), torch.randn_like(pixels)
        return torch.cat([(1 - level).sqrt() * pixels + level.sqrt() * noise, 2 * level - 1], 1), noise

    session = watch(model, optimizer)
    for pixels, _ in data.batches(64, 350):
        inputs, noise = noisy(pixels)
        outputs = model(inputs)
        loss = functional.mse_loss(outputs, noise)
        optimizer.zero_grad()
        loss.backward()
        session.step(loss, inputs=inputs, outputs=outputs, targets=noise)
        optimizer.step()
    inputs, noise = noisy(data.test_inputs)
    return samples.explained(predicted(model, inputs), noise)
