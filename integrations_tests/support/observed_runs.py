"""Real trainings, watched, that the tests of several answers look at."""

import json
from urllib.parse import urlencode

import numpy as np
import torch

import stepscope
from stepscope.viewer.answers.answer import Answer
from stepscope.viewer.answers.table import answer
from stepscope.viewer.watched_runs import RunList


def train(run, *, steps=40, lr=0.05, nan_at=None, **settings):
    """A small regression; from step ``nan_at`` on its inputs hold a NaN."""
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.Tanh(), torch.nn.Linear(16, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=lr)
    with stepscope.watch(model, optimizer, run=run, **settings):
        for step in range(steps):
            inputs = torch.randn(32, 8)
            if nan_at is not None and step >= nan_at:
                inputs[0, 0] = torch.nan
            loss = (model(inputs) - inputs.nan_to_num().sum(1, keepdim=True)).square().mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()


class Asked:
    """Asks for the first run of a folder."""

    def __init__(self, folder):
        self.runs = RunList([folder])
        self.key = self.runs.all()[0].key

    def answer(self, path, **parameters) -> Answer:
        """Returns an answer."""
        return answer(self.runs, f"{path}?{urlencode({'run': self.key, **parameters})}")

    def json(self, path, **parameters):
        """Returns the value of a JSON answer."""
        return json.loads(self.answer(path, **parameters).body)

    def columns(self, path, **parameters):
        """Returns meta and arrays of an answer of columns."""
        body = self.answer(path, **parameters).body
        length = int.from_bytes(body[:4], "little")
        header, offset = json.loads(body[4 : 4 + length]), -(-(4 + length) // 8) * 8
        arrays = {}
        for column in header["columns"]:
            count = int(np.prod(column["shape"]))
            array = np.frombuffer(body, column["dtype"], count, offset)
            arrays[column["name"]] = array.reshape(column["shape"])
            offset += -(-array.nbytes // 8) * 8
        return header["meta"], arrays
