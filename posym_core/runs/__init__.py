"""Where runs happen and what they leave: results, the store, provenance, devices, other processes."""

from posym_core.runs.devices import choose_device, device_name
from posym_core.runs.results import (
    MissingResultError,
    Result,
    ResultError,
    attached_file,
    load_result,
    result_names,
    results_folder,
    save_result,
    stored_results,
)

__all__ = [
    "MissingResultError",
    "Result",
    "ResultError",
    "attached_file",
    "choose_device",
    "device_name",
    "load_result",
    "result_names",
    "results_folder",
    "save_result",
    "stored_results",
]
