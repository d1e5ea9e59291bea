"""Modules are chosen by name, pattern or type, and keep their names whatever wraps the model."""

import re

import pytest
import torch
from torch import nn
from torch.nn.utils.parametrizations import weight_norm

from debuggers.errors import DebuggerConfigError, LayerNotFoundError
from debuggers.module_selection import select_modules


def network():
    block = nn.ModuleDict({"fc": nn.Linear(2, 2), "act": nn.ReLU()})
    return nn.ModuleDict({"stem": nn.Linear(2, 2), "blocks": nn.ModuleList([block, nn.Sequential(nn.Linear(2, 2))])})


def names(model, selection=None):
    return [entry.name for entry in select_modules(model, selection)]


def test_without_a_selection_all_leaves_are_chosen_in_order():
    assert names(network()) == ["stem", "blocks.0.fc", "blocks.0.act", "blocks.1.0"]


@pytest.mark.parametrize(
    ("selection", "expected"),
    [
        ("stem", ["stem"]),
        ("blocks.*.fc", ["blocks.0.fc"]),
        (nn.Linear, ["stem", "blocks.0.fc", "blocks.1.0"]),
        (re.compile(r"blocks\.\d"), ["blocks.0", "blocks.1"]),
        ([nn.ReLU, "stem"], ["stem", "blocks.0.act"]),
        ([], []),
    ],
)
def test_names_patterns_expressions_and_types_select(selection, expected):
    assert names(network(), selection) == expected


def test_a_selector_that_matches_nothing_is_an_error_with_the_nearest_names():
    with pytest.raises(LayerNotFoundError, match="no layer 'stm'; nearest names: stem"):
        select_modules(network(), ["stm"])
    with pytest.raises(LayerNotFoundError, match="no module that matches Conv2d"):
        select_modules(network(), nn.Conv2d)
    with pytest.raises(DebuggerConfigError, match="module selector 3: expected a name"):
        select_modules(network(), [3])


def test_the_model_itself_is_called_by_its_class():
    assert names(nn.Linear(1, 1)) == ["Linear"]
    assert names(torch.compile(nn.Linear(1, 1), backend="eager")) == ["Linear"]


def test_a_module_with_several_names_is_chosen_once():
    shared = nn.Linear(2, 2)
    model = nn.ModuleDict({"encoder": shared, "decoder": shared})
    (entry,) = select_modules(model, "decoder")
    assert (entry.name, entry.aliases) == ("encoder", ("decoder",))


def test_data_parallel_wrappers_leave_no_trace_in_the_names():
    assert names(nn.DataParallel(network())) == names(network())


def test_what_runs_inside_a_compiled_module_is_opaque():
    model = network()
    model["blocks"][1] = torch.compile(model["blocks"][1], backend="eager")
    chosen = select_modules(model)
    assert [(entry.name, entry.opaque) for entry in chosen] == [
        ("stem", False),
        ("blocks.0.fc", False),
        ("blocks.0.act", False),
        ("blocks.1", False),
        ("blocks.1.0", True),
    ]


@pytest.mark.filterwarnings("ignore:.torch.jit.script. is deprecated")
def test_modules_compiled_in_place_and_scripted_ones_are_opaque():
    model = nn.Sequential(nn.Linear(2, 2), nn.Sequential(nn.Linear(2, 2)), torch.jit.script(nn.Linear(2, 2)))
    model[1].compile(backend="eager")
    assert [(entry.name, entry.opaque) for entry in select_modules(model)] == [("0", False), ("1.0", True), ("2", True)]


def test_attention_counts_as_a_leaf_and_parametrizations_do_not_count():
    model = nn.Sequential(nn.MultiheadAttention(4, 2), weight_norm(nn.Linear(4, 4)))
    assert names(model) == ["0", "1"]
