"""What is kept and how: sealed files, unfinished work, results, provenance; devices and other processes."""

from posym_core.store.devices import choose_device, describe_device
from posym_core.store.results import (
    MissingResultError,
    Result,
    ResultError,
    find_attached_file,
    find_results_folder,
    list_results,
    load_result,
    load_stored_results,
    save_result,
)

__all__ = [
    "MissingResultError",
    "Result",
    "ResultError",
    "choose_device",
    "describe_device",
    "find_attached_file",
    "find_results_folder",
    "list_results",
    "load_result",
    "load_stored_results",
    "save_result",
]
