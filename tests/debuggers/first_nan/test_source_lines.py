"""The line of user code that called an operator is found behind those of torch and of this package."""

import sys

import torch
from torch import nn

from debuggers.first_nan.source_lines import source_line, user_place


def test_the_callers_own_line_is_found():
    line = source_line(user_place(sys._getframe()))

    assert line.file == __file__
    assert line.text == "line = source_line(user_place(sys._getframe()))"
    assert str(line).startswith(f"{__file__}:{line.line}: line = ")


def test_frames_of_torch_are_passed_over():
    found = []

    def hook(module, inputs):
        found.append(user_place(sys._getframe(1)))

    model = nn.Sequential(nn.Sequential(nn.Linear(1, 1)))
    model[0][0].register_forward_pre_hook(hook)
    model(torch.ones(1))

    assert source_line(found[0]).text == "model(torch.ones(1))"


def test_what_starts_a_backward_pass_called_none_of_its_operators():
    found = []
    values = torch.ones(1, requires_grad=True)
    values.register_hook(lambda gradient: found.append(user_place(sys._getframe(1))))
    values.sum().backward()

    assert found == [None]


def test_the_code_of_a_backward_pass_is_user_code():
    class Twice(torch.autograd.Function):
        @staticmethod
        def forward(ctx, values):
            return values * 2

        @staticmethod
        def backward(ctx, gradient):
            found.append(source_line(user_place(sys._getframe())))
            return gradient * 2

    found = []
    Twice.apply(torch.ones(1, requires_grad=True)).sum().backward()

    assert found[0].text.startswith("found.append(")


def test_a_file_that_cannot_be_read_has_no_text():
    code = compile("place = user_place(sys._getframe())", "<nowhere>", "exec")
    names = {"user_place": user_place, "sys": sys}
    exec(code, names)

    assert str(source_line(names["place"])) == "<nowhere>:1"
    assert source_line(None) is None
