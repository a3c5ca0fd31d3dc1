"""Storage: sealed files, unfinished work, provenance; devices and other processes."""

from posym_core.store._cache import cache_folder, find_cache_root
from posym_core.store._devices import TOKENS_A_BATCH, choose_device, describe_device, map_batches
from posym_core.store._parallel import HELD, check_places, hold, run_grid
from posym_core.store._provenance import list_library_versions, record_provenance
from posym_core.store._resuming import (
    ResultError,
    UnfinishedWork,
    describe_work,
    read_part,
    require_keeping,
    write_part,
)
from posym_core.store._sealing import DamagedError, require_whole, seal, sha256, unseal, write_atomically, write_files

__all__ = [
    "HELD",
    "TOKENS_A_BATCH",
    "DamagedError",
    "ResultError",
    "UnfinishedWork",
    "cache_folder",
    "check_places",
    "choose_device",
    "describe_device",
    "describe_work",
    "find_cache_root",
    "hold",
    "list_library_versions",
    "map_batches",
    "read_part",
    "record_provenance",
    "require_keeping",
    "require_whole",
    "run_grid",
    "seal",
    "sha256",
    "unseal",
    "write_atomically",
    "write_files",
    "write_part",
]
