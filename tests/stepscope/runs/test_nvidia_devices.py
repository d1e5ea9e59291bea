"""What the driver of NVIDIA devices tells: its package is the real one, and without a driver its answers are ours."""

import pytest

from stepscope.runs.nvidia_devices import NvidiaDevices, nvidia_devices

pynvml = pytest.importorskip("pynvml")


def driver_is_there():
    try:
        pynvml.nvmlInit()
    except pynvml.NVMLError:
        return False
    return pynvml.nvmlDeviceGetCount() > 0


@pytest.mark.skipif(driver_is_there(), reason="this machine has an NVIDIA device")
def test_a_machine_without_a_driver_has_none():
    assert nvidia_devices() is None


@pytest.mark.cuda
def test_the_devices_of_this_machine_tell_what_they_use():
    found = dict(nvidia_devices().sample(1.0))
    assert 0 <= found["gpu/0/utilization_percent"] <= 100
    assert found["gpu/0/memory_bytes"] > 0


def test_what_a_device_does_not_tell_is_left_out(monkeypatch):
    def refused(handle):
        raise pynvml.NVMLError(pynvml.NVML_ERROR_NOT_SUPPORTED)

    monkeypatch.setattr(pynvml, "nvmlDeviceGetHandleByIndex", lambda index: index)
    rates = pynvml.c_nvmlUtilization_t(gpu=87, memory=3)
    monkeypatch.setattr(pynvml, "nvmlDeviceGetUtilizationRates", lambda handle: rates)
    memory = pynvml.c_nvmlMemory_t(total=80 * 10**9, free=20 * 10**9, used=60 * 10**9)
    monkeypatch.setattr(pynvml, "nvmlDeviceGetMemoryInfo", lambda handle: memory)
    monkeypatch.setattr(pynvml, "nvmlDeviceGetTemperature", lambda handle, sensor: 61 + handle)
    monkeypatch.setattr(pynvml, "nvmlDeviceGetPowerUsage", refused)
    assert dict(NvidiaDevices(pynvml, 2).sample(10.0)) == {
        "gpu/0/utilization_percent": 87,
        "gpu/0/memory_bytes": 60 * 10**9,
        "gpu/0/temperature_celsius": 61,
        "gpu/1/utilization_percent": 87,
        "gpu/1/memory_bytes": 60 * 10**9,
        "gpu/1/temperature_celsius": 62,
    }
