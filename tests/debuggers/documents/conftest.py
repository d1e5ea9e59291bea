"""The documents' code blocks, taken from the files themselves and run unchanged, and a model with their layers."""

import hashlib
import os
import re
import textwrap
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import pytest
import torch
from torch import nn

ROOT = Path(__file__).parents[3]
FOLDER = Path(os.environ.get("STEPSCOPE_DOCUMENTS") or ROOT.parent / "shared" / "seeds")

PROGRAMS = {
    "as it is": lambda text: text,
    "entry of the dict `entry`": lambda text: f"entry = {{\n{text}\n}}",
    "methods of the class `Methods`": lambda text: f"class Methods(Base):\n{textwrap.indent(text, '    ')}",
    "body of the method `body`": lambda text: f"def body(self):\n{textwrap.indent(text, '    ')}\n    return locals()",
}
"""How a block of Python becomes a program."""


@dataclass(frozen=True)
class Block:
    """What stands between two fences."""

    language: str
    text: str

    @property
    def row(self):
        """Its language, its first line, and a checksum that changes with the text."""
        digest = hashlib.sha256(self.text.encode()).hexdigest()
        return self.language, self.text.partition("\n")[0], digest[:8]


class Document:
    """A document's blocks. ``table`` has a row for each: language, first line, checksum, and how it is run.

    A block that is run in several ways is cut before each comment that follows an empty line. Of a block that is no
    Python, the row names the file that checks it.
    """

    def __init__(self, name, table):
        text = (FOLDER / name).read_text(encoding="utf-8")
        found = re.findall(r"^```(\w*)\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
        self.name = name
        self.blocks = [Block(*each) for each in found]
        self._table = table

    def check_table(self):
        """Asserts that each block is listed as it stands, and that the files that check the others exist."""
        assert [block.row for block in self.blocks] == [row[:3] for row in self._table]
        for language, _, _, how in self._table:
            assert language == "python" or (ROOT / how).is_file(), how

    def run(self, index, **names):
        """Runs a block of Python; returns ``names`` and all that it defines."""
        ways = self._table[index][3]
        text = self.blocks[index].text
        parts = [text] if isinstance(ways, str) else re.split(r"\n\n(?=#)", text)
        for part, way in zip(parts, [ways] if isinstance(ways, str) else ways, strict=True):
            exec(compile(PROGRAMS[way](part), f"<{self.name}, block {index}>", "exec", dont_inherit=True), names)
        return names


@pytest.fixture
def open_document():
    """Opens a document, or skips where the documents are not at hand."""

    def opened(name, table):
        if not (FOLDER / name).is_file():
            pytest.skip(f"no {FOLDER / name}: the environment variable STEPSCOPE_DOCUMENTS names the documents' folder")
        return Document(name, table)

    return opened


class Attention(nn.Module):
    """Returns attention weights, as the documents' AttentionDebugger expects."""

    def __init__(self):
        super().__init__()
        self.query = nn.Linear(4, 4)

    def forward(self, tokens):
        """(B, N, 4) to (B, N, N)."""
        return (self.query(tokens) @ tokens.transpose(1, 2)).softmax(-1)


class Model(nn.Module):
    """Has the layers that the documents name: ``backbone.layer2`` to ``4`` and ``head.attention``."""

    def __init__(self):
        super().__init__()
        channels = (1, 4, 4, 4, 4)
        self.backbone = nn.Sequential()
        for number, (before, after) in enumerate(pairwise(channels), start=1):
            self.backbone.add_module(f"layer{number}", nn.Conv2d(before, after, 3, padding=1))
        self.head = nn.Module()
        self.head.attention = Attention()
        self.head.classifier = nn.Linear(4, 10)

    def activations(self, images):
        """Returns what each layer makes of images (B, 1, 8, 8), and the (B, 10) ``outputs``."""
        values, made = images, {}
        for name, layer in self.backbone.named_children():
            made[f"backbone.{name}"] = output = layer(values)
            values = output.tanh()
        tokens = values.flatten(2).transpose(1, 2)
        made["head.attention"] = weights = self.head.attention(tokens)
        return {**made, "outputs": self.head.classifier((weights @ tokens).mean(1))}

    def forward(self, images):
        """(B, 1, 8, 8) to (B, 10)."""
        return self.activations(images)["outputs"]


@pytest.fixture
def model():
    """The same weights each time."""
    with torch.random.fork_rng():
        torch.manual_seed(0)
        return Model().eval()


@pytest.fixture
def batch():
    """Three datapoints; the trainer adds ``outputs``."""
    images = torch.linspace(-9, 9, 3 * 64).sin().reshape(3, 1, 8, 8)
    return {"inputs": images, "labels": torch.tensor([1, 2, 3]), "meta_info": {"idx": [5, 6, 7]}}
