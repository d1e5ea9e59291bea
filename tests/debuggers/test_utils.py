"""Layers are found by name, and functions reach every tensor of a structure."""

from collections import OrderedDict, UserDict, defaultdict, namedtuple
from collections.abc import MutableMapping
from dataclasses import dataclass, field
from types import MappingProxyType

import pytest
import torch
from digit_models import digit_network
from hypothesis import given
from hypothesis import strategies as st

from debuggers.errors import LayerNotFoundError
from debuggers.utils import apply_tensor_op, get_layer_by_name, nearest_names, tensors_in

Pair = namedtuple("Pair", ["first", "second"])


@dataclass(frozen=True, slots=True)
class Output:
    logits: torch.Tensor
    names: tuple
    count: int = field(init=False, default=3)


def test_a_layer_is_found_by_its_dotted_name():
    model = digit_network()
    assert get_layer_by_name(model, "backbone.conv2") is model.backbone.conv2
    assert get_layer_by_name(model, "") is model


def test_a_missing_layer_is_an_error_with_the_nearest_names():
    with pytest.raises(LayerNotFoundError, match=r"'backbone\.conv3'.*backbone\.conv[12]"):
        get_layer_by_name(digit_network(), "backbone.conv3")
    with pytest.raises(LayerNotFoundError, match="no named layers"):
        get_layer_by_name(torch.nn.ReLU(), "conv")


def test_a_second_name_of_a_shared_layer_is_found():
    shared = torch.nn.Linear(2, 2)
    assert get_layer_by_name(torch.nn.ModuleDict({"a": shared, "b": shared}), "b") is shared


def test_types_are_kept():
    one = torch.ones(1)
    changed = apply_tensor_op(
        lambda tensor: tensor + 1,
        {
            "pair": Pair(one, [one, "text"]),
            "object": Output(logits=one, names=(one, None)),
            "default": defaultdict(list, {"x": one}),
            "ordered": OrderedDict(y=one),
            "top": torch.max(torch.ones(2, 2), dim=0),
        },
    )
    assert changed["pair"] == Pair(torch.tensor([2.0]), [torch.tensor([2.0]), "text"])
    assert changed["object"].logits == 2
    assert changed["object"].names == (torch.tensor([2.0]), None)
    assert changed["default"]["new"] == []
    assert isinstance(changed["ordered"], OrderedDict)
    assert changed["top"].values.tolist() == [2, 2]
    assert one == 1


structures = st.recursive(
    st.integers() | st.text() | st.none() | st.builds(torch.tensor, st.integers(0, 9)),
    lambda inner: st.lists(inner) | st.tuples(inner, inner) | st.dictionaries(st.text(), inner),
)


def leaves(value):
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, (list, tuple)):
        return [leaf for item in value for leaf in leaves(item)]
    return [int(value) if isinstance(value, torch.Tensor) else value]


@given(structures)
def test_every_tensor_is_reached_once_and_nothing_else_changes(structure):
    seen = []
    result = apply_tensor_op(lambda tensor: seen.append(tensor) or tensor.clone(), structure)
    assert leaves(structure) == leaves(result)
    assert all(isinstance(tensor, torch.Tensor) for tensor in seen)


def test_the_nearest_names_are_the_most_alike_or_the_first():
    names = ["backbone.conv1", "backbone.conv2", "head"]
    assert nearest_names("hea", names) == "nearest names: head"
    assert nearest_names("zzz", names) == "nearest names: backbone.conv1, backbone.conv2, head"
    assert nearest_names("zzz", iter(())) == "it has no named layers"


class Result(MutableMapping):
    """A mapping of its own making, as some models return it."""

    def __init__(self, items):
        self.items_ = items

    def __getitem__(self, key):
        return self.items_[key]

    def __setitem__(self, key, value):
        self.items_[key] = value

    def __delitem__(self, key):
        del self.items_[key]

    def __iter__(self):
        return iter(self.items_)

    def __len__(self):
        return len(self.items_)


@pytest.mark.parametrize("kind", [dict, OrderedDict, UserDict, Result, MappingProxyType])
def test_no_mapping_is_changed_itself(kind):
    original = kind({"x": torch.ones(1)})
    changed = apply_tensor_op(lambda tensor: tensor + 1, original)
    assert (changed["x"].item(), original["x"].item()) == (2, 1)


@pytest.mark.parametrize("find", [tensors_in, lambda value: apply_tensor_op(torch.neg, value)], ids=["find", "apply"])
def test_what_holds_itself_is_refused_long_before_the_stack_ends(find):
    endless: list[object] = [torch.ones(1)]
    endless.append({"again": endless})
    with pytest.raises(RecursionError, match=r"^a (list|dict) is nested in more than 100 others: does it hold itself"):
        find(endless)
    deep: object = torch.ones(1)
    for _ in range(100):
        deep = [deep]
    find(deep)
    with pytest.raises(RecursionError):
        find([deep])
