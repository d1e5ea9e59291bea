"""The debugger, in a model and in the pages that it leaves."""

import torch

from debuggers.pages import PageReader
from debuggers.wrappers.sequential_debugger import SequentialDebugger


def test_the_channels_with_the_largest_means_are_kept_for_each_datapoint(tmp_path):
    model = torch.nn.Sequential(torch.nn.Conv2d(1, 4, 1))
    torch.nn.init.zeros_(model[0].weight)
    model[0].bias.data = torch.tensor([0.5, 3.0, -1.0, 2.0])
    config = [{"name": "top", "type": "top_channels", "layer_name": "0", "count": 2}]
    with SequentialDebugger(config, model, on_error="raise") as debugger:
        debugger.begin_epoch(tmp_path)
        images = torch.ones(2, 1, 5, 5)
        outputs = model(images)
        debugger({"inputs": images, "outputs": outputs, "meta_info": {"idx": [7, 8]}}, model)
        debugger.save_all()

    kept = PageReader(tmp_path)[8]["top"]
    assert kept["channels"].tolist() == [1, 3]
    assert kept["means"].tolist() == [3.0, 2.0]
    assert kept["largest"] == 3.0
