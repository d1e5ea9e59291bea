"""Modules are chosen by name, pattern or type, and keep their names whatever wraps the model."""

import re

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn
from torch.distributed.algorithms._checkpoint.checkpoint_wrapper import checkpoint_wrapper
from torch.nn.utils.parametrizations import weight_norm

from debuggers.errors import DebuggerConfigError, LayerNotFoundError
from debuggers.instrumentation.module_selection import module_named, select_modules, selector_text


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
        ("blocks*", ["blocks", "blocks.0", "blocks.0.fc", "blocks.0.act", "blocks.1", "blocks.1.0"]),
        ("blocks.?", ["blocks.0", "blocks.1"]),
        ("blocks.[!0]", ["blocks.1"]),
        (nn.Linear, ["stem", "blocks.0.fc", "blocks.1.0"]),
        (re.compile(r"blocks\.\d"), ["blocks.0", "blocks.1"]),
        (r"re:blocks\.\d", ["blocks.0", "blocks.1"]),
        (r"re:.*c", ["blocks.0.fc"]),
        ([nn.ReLU, "stem"], ["stem", "blocks.0.act"]),
        ([], []),
    ],
)
def test_names_patterns_expressions_and_types_select(selection, expected):
    assert names(network(), selection) == expected


def test_an_expression_matches_the_whole_name():
    with pytest.raises(LayerNotFoundError, match="no module that matches 're:fc'"):
        select_modules(network(), "re:fc")


@pytest.mark.parametrize(
    ("selection", "message"),
    [
        (["stm"], "ModuleDict has no layer 'stm'; nearest names: stem"),
        ("blocks.0.f", r"no layer 'blocks\.0\.f'; nearest names: blocks\.0\.fc, blocks\.0"),
        ("stemm*", r"no module that matches 'stemm\*'; nearest names: stem"),
        (nn.Conv2d, "no module that matches Conv2d; nearest names: .*Linear"),
        (re.compile("x+"), r"no module that matches 're:x\+'; nearest names: .*stem"),
        ("re:blocks.[01].fcc", r"no module that matches 're:blocks\.\[01\]\.fcc'; nearest names: blocks\.[01]\.fc"),
    ],
)
def test_a_selector_that_matches_nothing_is_an_error_with_the_nearest_names(selection, message):
    with pytest.raises(LayerNotFoundError, match=message):
        select_modules(network(), selection)


@pytest.mark.parametrize(
    ("selection", "message"),
    [([3], "module selector 3: expected a name"), ("re:(", r"'re:\(' is not a regular expression: missing \)")],
)
def test_what_cannot_select_is_an_error(selection, message):
    with pytest.raises(DebuggerConfigError, match=message):
        select_modules(network(), selection)


def test_selectors_are_shown_as_they_are_written():
    assert [selector_text(each) for each in ("a.b", nn.ReLU, re.compile("a|b"))] == ["'a.b'", "ReLU", "'re:a|b'"]


def test_the_model_itself_is_called_by_its_class():
    assert names(nn.Linear(1, 1)) == ["Linear"]
    assert names(torch.compile(nn.Linear(1, 1), backend="eager")) == ["Linear"]
    for model in (network(), nn.DataParallel(network())):
        assert names(model, "") == ["ModuleDict"]


def test_a_child_may_have_the_name_of_the_model_s_class():
    model = nn.Sequential()
    model.add_module("Sequential", nn.ReLU())
    assert module_named(model, "Sequential").module is model[0]
    assert module_named(model, "").module is model


def test_a_module_with_several_names_is_chosen_once():
    shared = nn.Linear(2, 2)
    model = nn.ModuleDict({"encoder": shared, "decoder": shared})
    for selection in ("decoder", "*coder", nn.Linear, ["encoder", "decoder"]):
        (entry,) = select_modules(model, selection)
        assert (entry.name, entry.aliases) == ("encoder", ("decoder",))


def test_data_parallel_wrappers_leave_no_trace_in_the_names():
    for selection in (None, "*", nn.Linear):
        assert names(nn.DataParallel(network()), selection) == names(network(), selection)
    inside = nn.Sequential(nn.DataParallel(nn.Sequential(nn.Linear(2, 2))))
    assert names(inside, "*") == ["Sequential", "0", "0.0"]


def test_names_through_wrappers_are_understood_too():
    model = network()
    wrapped = nn.DataParallel(model)
    assert module_named(wrapped, "module.blocks.0.fc").module is model["blocks"][0]["fc"]
    assert module_named(wrapped, "module.blocks.0.fc").name == "blocks.0.fc"
    compiled = torch.compile(model, backend="eager")
    entry = module_named(compiled, "_orig_mod.stem")
    assert (entry.name, entry.module, entry.opaque) == ("stem", model["stem"], True)


def test_a_wrapper_stands_for_what_it_wraps():
    model = nn.Sequential(checkpoint_wrapper(nn.Linear(2, 2)), checkpoint_wrapper(nn.Sequential(nn.ReLU())))
    assert names(model) == ["0", "1.0"]
    for selection in (nn.Linear, "0"):
        (entry,) = select_modules(model, selection)
        assert (entry.name, entry.module) == ("0", model[0])


def test_a_type_is_found_inside_a_compiled_module():
    model = nn.Sequential(torch.compile(nn.Linear(2, 2), backend="eager"))
    (entry,) = select_modules(model, nn.Linear)
    assert (entry.name, entry.module, entry.opaque) == ("0", model[0], False)


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
    scripted = torch.jit.script(nn.Sequential(nn.Linear(2, 2)))
    model = nn.Sequential(nn.Linear(2, 2), nn.Sequential(nn.Linear(2, 2)), scripted)
    model[1].compile(backend="eager")
    assert [(entry.name, entry.opaque) for entry in select_modules(model)] == [("0", False), ("1.0", True), ("2", True)]
    assert module_named(model, "2.0").opaque


def test_attention_counts_as_a_leaf_and_parametrizations_do_not_count():
    model = nn.Sequential(nn.MultiheadAttention(4, 2), weight_norm(nn.Linear(4, 4)))
    assert names(model) == ["0", "1"]


def test_what_is_no_module_of_its_own_is_found_by_its_exact_name_only():
    model = nn.Sequential(nn.MultiheadAttention(4, 2), weight_norm(nn.Linear(4, 4)))
    assert names(model, "0.out_proj") == ["0.out_proj"]
    assert module_named(model, "1.parametrizations.weight").module is model[1].parametrizations["weight"]
    assert module_named(model, "0.out_project") is None
    with pytest.raises(LayerNotFoundError, match="no module that matches"):
        select_modules(model, "*.out_proj*")


trees = st.recursive(
    st.just({}), lambda inner: st.dictionaries(st.text("ab_[*?]:", min_size=1, max_size=3), inner, max_size=3)
)


def built(tree):
    model = nn.Module()
    for key, branch in tree.items():
        model.add_module(key, built(branch))
    return model


@given(trees)
def test_every_name_selects_its_own_module(tree):
    model = built(tree)
    for name, module in model.named_modules():
        assert module_named(model, name).module is module
        assert [entry.module for entry in select_modules(model, name)] == [module]
        assert name == "" or module in [entry.module for entry in select_modules(model, f"re:{re.escape(name)}")]
