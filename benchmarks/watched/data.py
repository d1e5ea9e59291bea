"""Real data that every installation has: the standard library's source text and scikit-learn's sample images."""

import os
import re
from collections import Counter
from functools import cache
from pathlib import Path

import torch

Batch = tuple[torch.Tensor, torch.Tensor]
"""Inputs and targets of a training step."""

HIDDEN_SHARE = 0.15  # of the tokens, as in masked language modelling (Devlin et al., 2018)
SOURCE_FILES = 100


@cache
def _words() -> list[str]:
    paths = sorted(Path(os.__file__).parent.glob("*.py"))[:SOURCE_FILES]
    text = "\n".join(path.read_text(encoding="utf-8", errors="replace") for path in paths)
    return re.findall(r"\w+|[^\w\s]|\s+", text)


def text_batches(number: int, vocabulary: int, batch: int, length: int) -> list[Batch]:
    """Returns tokens (batch, length) of which some are hidden (token 0), and all of them as targets (batch * length).

    Tokens are the ranks of words in the text; what is rarer than the vocabulary is large counts as hidden too.
    """
    words = _words()
    ranks = {word: rank for rank, (word, _) in enumerate(Counter(words).most_common(vocabulary - 1), start=1)}
    tokens = torch.tensor([ranks.get(word, 0) for word in words])
    generator = torch.Generator().manual_seed(0)
    batches = []
    for _ in range(number):
        starts = torch.randint(len(tokens) - length, (batch, 1), generator=generator)
        targets = tokens[starts + torch.arange(length)]
        hidden = torch.rand(targets.shape, generator=generator) < HIDDEN_SHARE
        batches.append((targets.masked_fill(hidden, 0), targets.flatten()))
    return batches


def image_batches(number: int, batch: int, size: int) -> list[Batch]:
    """Returns crops (batch, 3, size, size) of two photographs, and as targets the photograph's half they lie in."""
    from sklearn.datasets import load_sample_images

    photographs = [torch.from_numpy(image.copy()).permute(2, 0, 1) / 255 - 0.5 for image in load_sample_images().images]
    generator = torch.Generator().manual_seed(0)

    def draw(limit: int) -> int:
        return int(torch.randint(limit, (), generator=generator))

    def crop() -> tuple[torch.Tensor, int]:
        which = draw(len(photographs))
        _, height, width = photographs[which].shape
        top, left = draw(height - size), draw(width - size)
        return photographs[which][:, top : top + size, left : left + size], 2 * which + (2 * left > width - size)

    batches = []
    for _ in range(number):
        crops = [crop() for _ in range(batch)]
        batches.append((torch.stack([image for image, _ in crops]), torch.tensor([label for _, label in crops])))
    return batches


def digit_batches(number: int, batch: int, width: int) -> list[Batch]:
    """Returns scanned digits (batch, width), 64 pixels averaged or repeated to ``width`` values, and which they are."""
    from sklearn.datasets import load_digits

    digits = load_digits()
    pixels = torch.from_numpy(digits.data).float() / 16
    inputs = torch.nn.functional.interpolate(pixels[:, None], size=width, mode="area")[:, 0]
    generator = torch.Generator().manual_seed(0)
    rows = [torch.randint(len(inputs), (batch,), generator=generator) for _ in range(number)]
    return [(inputs[chosen], torch.from_numpy(digits.target)[chosen]) for chosen in rows]
