"""Outputs are measured as they were when their module returned them, one by one or together."""

from dataclasses import dataclass

import pytest
import torch

from debuggers.activations.output_rows import OutputRows


@dataclass
class Layer:
    waits: bool | None = None


def means(rows):
    joined = rows.joined()
    return dict(zip(joined.names, joined.resolve().moment("mean").tolist(), strict=True))


def learn(layer, *, change):
    rows, output = OutputRows(), torch.ones(3)
    rows.add("output", output, layer)
    if change:
        output.add_(1)
    rows.flush()
    return means(rows)


@pytest.mark.parametrize("change", [False, True])
def test_a_new_module_is_measured_at_once_and_observed_until_the_forward_pass_ends(change):
    layer = Layer()

    assert learn(layer, change=change) == {"output": 1.0}
    assert layer.waits is not change


def test_an_output_that_is_freed_is_measured_at_once_and_takes_no_other_along():
    rows, layer, new, other = OutputRows(), Layer(waits=True), Layer(), Layer(waits=True)
    freed = [torch.ones(3), torch.ones(3)]
    rows.add("freed while it waits", freed[0], layer)
    rows.add("freed after it was measured", freed[1], new)
    rows.add("kept", torch.zeros(3), other)
    for output in freed:
        output.untyped_storage().resize_(0)
    rows.flush()

    assert means(rows) == {"freed after it was measured": 1.0, "kept": 0.0}
    assert rows.lost == 1
    assert (layer.waits, new.waits, other.waits) == (False, False, True)


def test_outputs_that_wait_are_measured_together_at_the_end():
    rows, outputs = OutputRows(), [torch.full((3,), float(value)) for value in range(4)]
    for value, output in enumerate(outputs):
        rows.add(str(value), output, Layer(waits=True))
    assert means(rows) == {}

    rows.flush()
    outputs[0].add_(100)

    assert means(rows) == {"0": 0.0, "1": 1.0, "2": 2.0, "3": 3.0}


def test_an_output_that_changes_while_it_waits_is_lost_and_its_module_waits_no_more():
    rows, layer, other, changed = OutputRows(), Layer(waits=True), Layer(waits=True), torch.ones(3)
    rows.add("changed", changed, layer)
    rows.add("kept", torch.zeros(3), other)
    changed.add_(1)
    rows.flush()

    assert means(rows) == {"kept": 0.0}
    assert rows.lost == 1
    assert (layer.waits, other.waits) == (False, True)
    assert learn(layer, change=True) == {"output": 1.0}
    assert learn(layer, change=False) == {"output": 1.0}
    assert layer.waits is False


def test_waiting_and_measuring_at_once_keep_names_and_values_together():
    rows = OutputRows()
    rows.add("waits", torch.full((2,), 1.0), Layer(waits=True))
    rows.add("at once", torch.full((2,), 2.0), Layer())
    rows.add("waits too", torch.full((2,), 3.0), Layer(waits=True))
    rows.flush()

    assert means(rows) == {"waits": 1.0, "at once": 2.0, "waits too": 3.0}


def test_large_outputs_do_not_wait_for_the_end():
    rows, output = OutputRows(), torch.ones(1_100_000)
    rows.add("large", output, Layer(waits=True))
    output.add_(1)
    rows.flush()

    assert means(rows) == {"large": 1.0}
    assert rows.lost == 0


def test_a_tensor_that_is_passed_on_is_measured_once():
    rows, output = OutputRows(), torch.ones(3)
    rows.add("layer", output, Layer(waits=True))
    rows.add("identity", output, Layer())
    rows.flush()

    assert means(rows) == {"layer": 1.0, "identity": 1.0}


def test_rows_of_one_name_are_merged():
    rows = OutputRows()
    for value in (1.0, 3.0):
        rows.add("output", torch.full((2,), value), Layer(waits=True))
        rows.flush()

    assert means(rows) == {"output": 2.0}


def test_tensors_of_inference_mode_are_measured_at_once():
    rows = OutputRows()
    with torch.inference_mode():
        output = torch.ones(3)
        rows.add("output", output, Layer(waits=True))
        output.add_(1)
    rows.flush()

    assert means(rows) == {"output": 1.0}
