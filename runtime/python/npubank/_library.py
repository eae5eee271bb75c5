"""The C interface as ctypes: npubank.h's structs, callbacks and functions, and nothing more."""
import ctypes
import os
from ctypes import POINTER, c_char, c_char_p, c_int, c_int64, c_size_t, c_uint32, c_uint64, c_void_p

CODES = ["OK", "CANCELLED", "UNKNOWN", "INVALID_ARGUMENT", "DEADLINE_EXCEEDED", "NOT_FOUND", "ALREADY_EXISTS",
         "PERMISSION_DENIED", "RESOURCE_EXHAUSTED", "FAILED_PRECONDITION", "ABORTED", "OUT_OF_RANGE", "UNIMPLEMENTED",
         "INTERNAL", "UNAVAILABLE", "DATA_LOSS"]
ELEMENTS = {name: number for number, name in enumerate(
    ["F32", "F16", "BF16", "F8_E4M3", "F8_E5M2", "F64", "I64", "I32", "I16", "I8", "U64", "U32", "U16", "U8", "BOOL", "I4",
     "U4", "NF4"], start=1)}
_NAMES = {number: name for name, number in ELEMENTS.items()}

PROGRESS = ctypes.CFUNCTYPE(None, c_void_p, c_uint64, c_uint64, c_char_p)
CANCELLED = ctypes.CFUNCTYPE(c_int, c_void_p)
LOG = ctypes.CFUNCTYPE(None, c_void_p, c_char_p)
OBJECT = ctypes.CFUNCTYPE(None, c_void_p, c_char_p, c_uint64)


class Type(ctypes.Structure):
    _fields_ = [("element_number", c_uint32), ("rank", c_uint32), ("_dims", c_int64 * 8), ("bytes", c_uint64)]

    @classmethod
    def of(cls, element, dims):
        dims = list(dims)
        if len(dims) > 8:
            raise ValueError(f"a type of rank {len(dims)}: at most 8")
        return cls(ELEMENTS[element], len(dims), (c_int64 * 8)(*dims))

    @property
    def element(self):
        return _NAMES[self.element_number]

    @property
    def dims(self):
        return list(self._dims[:self.rank])

    def __repr__(self):
        return f"{self.element}{self.dims}"


class _Sized(ctypes.Structure):
    """A struct that begins with its own size."""

    def __init__(self, **values):
        super().__init__(**values)
        self.struct_size = ctypes.sizeof(self)
        for name, value in values.items():  # ctypes drops the bits that there is no room for
            if isinstance(value, int) and getattr(self, name) != value:
                raise ValueError(f"{name} {value} is out of range")


class _Whole(c_uint64):
    """A count, which is none below 0 and none that C has no room for."""

    @classmethod
    def from_param(cls, value):
        if not 0 <= value < 1 << 64:
            raise ValueError(f"{value} is out of range")
        return c_uint64(value)


def _sized(name, *fields):
    return type(name, (_Sized,), {"_fields_": [("struct_size", c_size_t), *fields]})


def _counts(name, names):
    return _sized(name, *((field, c_uint64) for field in names.split()))


Stored = _sized("Stored", ("name", c_char_p), ("file", c_char_p), ("offset", c_uint64), ("type", Type),
                ("block_format", c_uint32))
HostOptions = _sized("HostOptions", ("capacity", c_uint64))
NpuOptions = _sized("NpuOptions", ("device", c_char_p), ("strategy", c_char_p), ("argument_alignment", c_uint64))
Usage = _counts("Usage", "live_bytes peak_bytes live_allocations imported_bytes")
BankOptions = _sized("BankOptions", ("budget_bytes", c_uint64), ("keep_unowned", c_int), ("keep_equal_content_apart", c_int),
                     ("threads", c_int), ("executor", c_void_p), ("cache_path", c_char_p), ("cache_limit_bytes", c_uint64))
LoadOptions = _sized("LoadOptions", ("user", c_void_p), ("progress", PROGRESS), ("cancelled", CANCELLED))
SleepOptions = _sized("SleepOptions", ("keep_host_copy", c_int))
SleepReport = _counts("SleepReport", "bytes_given_back bytes_of_others_awake bytes_leased bytes_without_way_back")
Totals = _counts("Totals", "unique_tensors unique_bytes resident_bytes device_bytes registrations hits shared_bytes_saved "
                 "evaluations waits evictions transformations cache_hits budget budget_used")
TensorState = _sized("TensorState", ("bytes", c_uint64), ("device_bytes", c_uint64), ("leases", c_uint64),
                     ("owners", c_uint64), ("state", c_char * 16), ("alignment", c_uint64), ("pool", c_uint64))
MemoryHints = _counts("MemoryHints", "alignment pool")
Facts = _sized("Facts", ("address", c_void_p), ("uid", c_uint64), ("type", Type), ("device_bytes", c_uint64),
               ("strategy", c_char_p), ("host_bytes", c_void_p), ("file_descriptor", c_int), ("file_path", c_char_p),
               ("file_offset", c_uint64), ("file_page_aligned", c_int))

_HANDLE, _OUT, _SIZE, _NAME = c_void_p, c_void_p, _Whole, c_char_p
# Function: what it takes. Those that return no error are in _RETURNS.
_FUNCTIONS = {
    "version": [], "error_code": [_HANDLE], "error_text": [_HANDLE], "error_free": [_HANDLE],
    "set_log": [LOG, c_void_p], "live_objects": [OBJECT, c_void_p],
    "index_open": [_NAME, _OUT], "index_free": [_HANDLE], "index_count": [_HANDLE],
    "index_get": [_HANDLE, _SIZE, _OUT], "index_find": [_HANDLE, _NAME, _OUT],
    "tensor_stored": [_HANDLE, _NAME, _OUT], "tensor_from_bytes": [POINTER(Type), c_char_p, _SIZE, _NAME, _OUT],
    "tensor_splat": [POINTER(Type), _Whole, _OUT], "tensor_concat": [c_void_p, _SIZE, c_int, _OUT],
    "tensor_slice": [_HANDLE, c_void_p, c_void_p, _SIZE, _OUT], "tensor_reshape": [_HANDLE, c_void_p, _SIZE, _OUT],
    "tensor_permute": [_HANDLE, c_void_p, _SIZE, _OUT], "tensor_convert": [_HANDLE, c_int, _OUT],
    "tensor_unpack": [_HANDLE, _HANDLE, _HANDLE, c_int, _OUT], "tensor_gather": [_HANDLE, _HANDLE, _OUT],
    "tensor_shift": [_HANDLE, _OUT], "tensor_unpack_nibbles": [_HANDLE, c_uint32, _OUT],
    "tensor_dequantize_blocks": [_HANDLE, c_uint32, c_int, _OUT],
    "tensor_copy_block_plane": [_HANDLE, c_uint32, c_uint32, _OUT], "tensor_type": [_HANDLE, _OUT],
    "tensor_uid": [_HANDLE], "tensor_digest": [_HANDLE, _OUT], "tensor_detached": [_HANDLE], "tensor_detach": [_HANDLE],
    "tensor_evaluate": [_HANDLE, c_void_p, _SIZE], "tensor_free": [_HANDLE],
    "memory_host": [c_void_p, _OUT], "memory_npu": [c_void_p, _OUT], "memory_usage": [_HANDLE, _OUT],
    "memory_free": [_HANDLE],
    "bank_create": [_HANDLE, c_void_p, _OUT], "bank_free": [_HANDLE], "owner_add": [_HANDLE, _NAME, _HANDLE, _OUT],
    "owner_free": [_HANDLE], "bank_register": [_HANDLE, _HANDLE, _HANDLE, _NAME, _OUT, _OUT],
    "bank_register_with": [_HANDLE, _HANDLE, _HANDLE, _NAME, c_void_p, _OUT, _OUT],
    "bank_load": [_HANDLE, c_void_p, _SIZE, c_void_p, _OUT], "bank_load_one": [_HANDLE, _NAME, _HANDLE, c_void_p, _OUT],
    "bank_wake": [_HANDLE, c_void_p, _SIZE, c_void_p], "bank_get": [_HANDLE, _Whole, _OUT],
    "bank_read": [_HANDLE, _Whole, _Whole, c_void_p, _SIZE], "bank_inspect": [_HANDLE, _Whole, _OUT],
    "bank_sleep": [_HANDLE, c_void_p, _SIZE, c_void_p, _OUT], "bank_drop_host_copies": [_HANDLE, c_void_p, _SIZE, _OUT],
    "bank_evict": [_HANDLE, _Whole], "bank_trim": [_HANDLE], "bank_set_budget": [_HANDLE, _Whole],
    "bank_totals": [_HANDLE, _OUT], "bank_save_snapshot": [_HANDLE, _NAME], "bank_audit": [_HANDLE, _Whole],
    "bank_save_cache": [_HANDLE],
    "leases_count": [_HANDLE], "leases_get": [_HANDLE, _SIZE, _OUT], "leases_free": [_HANDLE],
    "lease_get_facts": [_HANDLE, _OUT], "lease_free": [_HANDLE],
}
_RETURNS = {"version": c_char_p, "error_code": c_int, "error_text": c_char_p, "index_count": c_size_t,
            "tensor_uid": c_uint64, "tensor_detached": c_int, "bank_evict": c_int, "bank_trim": c_uint64,
            "leases_count": c_size_t, "set_log": None, "tensor_detach": None}


def _load():
    installed = os.path.join(os.path.dirname(__file__), "..", "..", "..", "libnpubank.so.0")
    path = os.environ.get("NPUBANK_LIBRARY") or (installed if os.path.exists(installed) else "libnpubank.so.0")
    loaded = ctypes.CDLL(path)
    for name, arguments in _FUNCTIONS.items():
        function = getattr(loaded, "npubank_" + name)
        function.argtypes = arguments
        function.restype = None if name.endswith("_free") else _RETURNS.get(name, c_void_p)
    return loaded


library = _load()
