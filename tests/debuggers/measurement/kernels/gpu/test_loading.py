"""Why kernels for GPUs cannot be used, in a sentence."""

import pytest
import torch

from debuggers.measurement.kernels.gpu import loading, nvrtc


@pytest.fixture
def forgets():
    loading.load.cache_clear()
    yield
    loading.load.cache_clear()


def test_they_can_be_switched_off(forgets, monkeypatch):
    monkeypatch.setenv("STEPSCOPE_GPU_KERNEL", "off")
    assert loading.load() == (None, "STEPSCOPE_GPU_KERNEL=off")


def test_a_torch_without_cuda_has_none(forgets, monkeypatch):
    monkeypatch.setattr(torch.version, "cuda", None)
    assert loading.load() == (None, "this torch is not built for CUDA")


def test_a_library_that_is_missing_is_named_with_what_installs_it(forgets, monkeypatch):
    monkeypatch.setattr(torch.version, "cuda", "99.1")
    assert loading.load() == (None, "libnvrtc.so.99 cannot be loaded; torch's packages for CUDA install it")


@pytest.mark.cuda
def test_what_the_compiler_refuses_is_said_in_its_words():
    with pytest.raises(nvrtc.CompilationError, match='identifier "nothing" is undefined'):
        nvrtc.compile_source("int one = nothing;", [])
