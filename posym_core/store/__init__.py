"""What is kept and how: sealed files, unfinished work, results, provenance; devices and other processes."""

from posym_core.store._cache import cache_folder, find_cache_root
from posym_core.store._devices import choose_device, describe_device
from posym_core.store._parallel import HELD, hold, run_grid
from posym_core.store._provenance import PACKAGES, list_library_versions, record_provenance
from posym_core.store._results import (
    MissingResultError,
    Result,
    ResultError,
    find_attached_file,
    find_results_folder,
    list_results,
    load_result,
    load_stored_results,
    require_keeping,
    result_path,
    save_result,
    work_folder,
)
from posym_core.store._resuming import UnfinishedWork, describe_difference, describe_work, read_part, write_part
from posym_core.store._sealing import (
    DamagedError,
    record,
    require_whole,
    seal,
    sha256,
    unseal,
    write_atomically,
    write_files,
)

__all__ = [
    "HELD",
    "PACKAGES",
    "DamagedError",
    "MissingResultError",
    "Result",
    "ResultError",
    "UnfinishedWork",
    "cache_folder",
    "choose_device",
    "describe_device",
    "describe_difference",
    "describe_work",
    "find_attached_file",
    "find_cache_root",
    "find_results_folder",
    "hold",
    "list_library_versions",
    "list_results",
    "load_result",
    "load_stored_results",
    "read_part",
    "record",
    "record_provenance",
    "require_keeping",
    "require_whole",
    "result_path",
    "run_grid",
    "save_result",
    "seal",
    "sha256",
    "unseal",
    "work_folder",
    "write_atomically",
    "write_files",
    "write_part",
]
