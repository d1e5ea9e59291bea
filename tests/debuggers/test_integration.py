"""Which epochs are debugged, and where their pages lie."""

import pytest
import torch
from debugger_parts import entry
from digit_models import digit_network, digits

from debuggers.errors import DebuggerConfigError
from debuggers.feature_map import FeatureMapDebugger
from debuggers.integration import after_epoch, before_epoch, checkpoint_indices, debugger_folder
from debuggers.pages import PageReader
from debuggers.wrappers.sequential_debugger import SequentialDebugger


@pytest.mark.parametrize(
    ("method", "epochs", "expected"),
    [
        (5, 10, [4, 9]),
        (5, 12, [4, 9, 11]),
        (20, 3, [2]),
        (1, 3, [0, 1, 2]),
        ("all", 3, [0, 1, 2]),
        ("latest", 3, [2]),
        ("all", 0, []),
        ("latest", 0, []),
        (3, 0, []),
    ],
)
def test_the_last_epoch_is_always_saved(method, epochs, expected):
    assert checkpoint_indices(method, epochs) == expected


@pytest.mark.parametrize("method", ["every", 0, -1, True, 2.0, None])
def test_another_method_is_an_error(method):
    with pytest.raises(DebuggerConfigError, match=r"checkpoint_method is .*expected 'all', 'latest' or an int"):
        checkpoint_indices(method, 5)


def test_folders(tmp_path):
    assert debugger_folder(tmp_path, 4) == tmp_path / "epoch_4" / "debugger"
    assert debugger_folder(tmp_path) == tmp_path / "debugger"


def test_a_trainer_saves_each_chosen_epoch_in_its_own_folder(tmp_path):
    model, (images, _) = digit_network(), digits(6)
    config = [entry("maps", FeatureMapDebugger, layer_name="backbone.conv1")]
    indices = checkpoint_indices(2, 5)
    with SequentialDebugger(config, model, page_size_mb=0.002) as debugger:
        for epoch in range(5):
            enabled = before_epoch(debugger, tmp_path, epoch, indices)
            assert enabled == debugger.enabled == (epoch in (1, 3, 4))
            for idx in range(6):
                outputs = model(images[idx : idx + 1])
                debugger({"outputs": outputs, "meta_info": {"idx": idx}}, model)
            after_epoch(debugger)
            assert not debugger.enabled
        before_epoch(debugger, tmp_path)
        model(images[:1])
        debugger({"meta_info": {"idx": torch.tensor([0])}}, model)
        after_epoch(debugger)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["debugger", "epoch_1", "epoch_3", "epoch_4"]
    for epoch in (1, 3, 4):
        reader = PageReader(debugger_folder(tmp_path, epoch))
        assert (list(reader), len(reader.records)) == (list(range(6)), 6)
    assert list(PageReader(tmp_path / "debugger")) == [0]
