from types import SimpleNamespace

import pytest
import torch

from posym_core.store._devices import choose_device, describe_device


@pytest.mark.parametrize(("library", "devices", "expected"), [(False, 0, "cpu"), (True, 0, "cpu"), (True, 1, "cuda")])
def test_auto_is_a_gpu_only_where_there_is_one(library, devices, expected, monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: library)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: devices)
    assert choose_device().type == expected


def test_a_device_is_named_for_what_it_is(monkeypatch):
    assert describe_device(choose_device("cpu")).startswith("CPU (")
    assert describe_device(torch.device("mps")).startswith("mps (")
    monkeypatch.setattr(torch, "xpu", SimpleNamespace(get_device_name=lambda device: f"Arc {device.index}"))
    assert describe_device(torch.device("xpu", 1)) == "Arc 1"


@pytest.mark.parametrize("threads", [1, 2])
def test_a_processor_is_named_with_its_threads(monkeypatch, threads):
    monkeypatch.setattr(torch, "get_num_threads", lambda: threads)
    assert describe_device(torch.device("cpu")).endswith(f", {threads} thread{'s' * (threads - 1)})")
