"""npubank in Python: one copy of every weight on a device, over the C interface, with the standard library alone.

    import npubank
    with npubank.Memory.npu() as memory, npubank.Bank(memory) as bank, npubank.Index("model.safetensors") as index:
        with bank.owner("prefill", index) as owner:
            bank.register(owner, index["lm_head.weight"].convert("F16"), "lm_head")
            for lease in bank.load(owner):
                weights = numpy.asarray(lease)       # no copy, where the host can read the memory
                lease.address                        # what a device's argument takes

Ownership: every object lets go of what it holds when it is closed, when its `with` ends, or when nobody refers to it; in
any order. A view of a lease keeps the bytes where they are, also when the lease is closed.
Errors: npubank.Error, with `code` ("NOT_FOUND") and a text that names the tensor or file and what to do. A
number that C has no room for is Python's own ValueError, or ctypes.ArgumentError.
Threads: any; the interpreter's lock is not held while the library works.
The library is $NPUBANK_LIBRARY, else libnpubank.so where this package is installed, else where the system finds it.
"""
import ctypes
import mmap
import os

from ._library import CODES, ELEMENTS, Facts, Stored, TensorState, Totals, Type, Usage
from ._library import BankOptions, HostOptions, LoadOptions, MemoryHints, NpuOptions, SleepOptions, SleepReport
from ._library import CANCELLED, LOG, OBJECT, PROGRESS, library as _library

__all__ = ["Bank", "Error", "Index", "Lease", "Memory", "Owner", "Tensor", "live_objects", "set_log", "version"]

# What memoryview and numpy call an element; where they have no word, its bits.
_FORMATS = {"F64": ("d", "<f8"), "F32": ("f", "<f4"), "F16": ("H", "<f2"), "BF16": ("H", "<u2"), "I64": ("q", "<i8"), "I32": ("i", "<i4"),
            "I16": ("h", "<i2"), "I8": ("b", "|i1"), "U64": ("Q", "<u8"), "U32": ("I", "<u4"), "U16": ("H", "<u2"),
            "U8": ("B", "|u1"), "BOOL": ("?", "|b1")}


class Error(Exception):
    """What went wrong: `code` is one of npubank.h's, without its prefix."""

    def __init__(self, code, text):
        super().__init__(f"{code}: {text}")
        self.code, self.text = code, text


def _check(error):
    if error:
        code, text = _library.npubank_error_code(error), _library.npubank_error_text(error)
        _library.npubank_error_free(error)
        raise Error(CODES[code], text.decode(errors="replace"))


def _made(function, *arguments):
    out = ctypes.c_void_p()
    _check(function(*arguments, ctypes.byref(out)))
    return out


def _told(struct, function, *arguments):
    out = struct()
    _check(function(*arguments, ctypes.byref(out)))
    return out


class _Handle:
    """A handle of the library, freed when nobody refers to this any more."""

    def __init__(self, pointer, free):
        self.pointer, self._free = pointer, free

    def __del__(self):
        self._free(self.pointer)


class _Object:
    def __init__(self, pointer, free):
        self._held = _Handle(pointer, free)

    @property
    def _pointer(self):
        if self._held is None:
            raise Error("FAILED_PRECONDITION", f"this {type(self).__name__} is closed")
        return self._held.pointer

    def close(self):
        """Lets go now; more than once does no harm."""
        self._held = None

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()


def version():
    return _library.npubank_version().decode()


def live_objects():
    """How many of the library's things are alive, by kind and name: equal before and after what leaks nothing."""
    found = {}

    def visit(_, what, count):
        found[what.decode()] = count

    _check(_library.npubank_live_objects(OBJECT(visit), None))
    return found


_log = None  # what the library calls must live


def set_log(log):
    """`log(line)` takes what no caller asked for, from any thread; None: standard error."""
    global _log
    sink = LOG() if log is None else LOG(lambda _, line: log(line.decode(errors="replace")))
    _library.npubank_set_log(sink, None)
    _log = sink


class Tensor(_Object):
    """A weight that is not evaluated yet. Operations give new ones; nothing is read before it is loaded."""

    def __init__(self, pointer):
        super().__init__(pointer, _library.npubank_tensor_free)

    @classmethod
    def from_bytes(cls, element, dims, data, name="bytes"):
        data = bytes(data)
        return cls(_made(_library.npubank_tensor_from_bytes, Type.of(element, dims), data, len(data), name.encode()))

    @classmethod
    def splat(cls, element, dims, bits):
        return cls(_made(_library.npubank_tensor_splat, Type.of(element, dims), bits))

    @classmethod
    def concat(cls, tensors, axis):
        pointers = (ctypes.c_void_p * len(tensors))(*(tensor._pointer.value for tensor in tensors))
        return cls(_made(_library.npubank_tensor_concat, pointers, len(tensors), axis))

    def slice(self, start, size):
        array = ctypes.c_int64 * len(start)
        return Tensor(_made(_library.npubank_tensor_slice, self._pointer, array(*start), array(*size), len(start)))

    def reshape(self, *dims):
        return Tensor(_made(_library.npubank_tensor_reshape, self._pointer, (ctypes.c_int64 * len(dims))(*dims), len(dims)))

    def permute(self, *order):
        return Tensor(_made(_library.npubank_tensor_permute, self._pointer, (ctypes.c_int * len(order))(*order), len(order)))

    def convert(self, element):
        return Tensor(_made(_library.npubank_tensor_convert, self._pointer, ELEMENTS[element]))

    def unpack(self, scale, zero=None, element="F32"):
        none = zero._pointer if zero is not None else None
        return Tensor(_made(_library.npubank_tensor_unpack, self._pointer, scale._pointer, none, ELEMENTS[element]))

    def gather(self, table):
        return Tensor(_made(_library.npubank_tensor_gather, self._pointer, table._pointer))

    def shift(self):
        return Tensor(_made(_library.npubank_tensor_shift, self._pointer))

    def unpack_nibbles(self, layout):
        return Tensor(_made(_library.npubank_tensor_unpack_nibbles, self._pointer, layout))

    def dequantize_blocks(self, block_format, element="F32"):
        return Tensor(_made(_library.npubank_tensor_dequantize_blocks, self._pointer, block_format, ELEMENTS[element]))

    def copy_block_plane(self, block_format, plane):
        return Tensor(_made(_library.npubank_tensor_copy_block_plane, self._pointer, block_format, plane))

    @property
    def type(self):
        return _told(Type, _library.npubank_tensor_type, self._pointer)

    @property
    def uid(self):
        return _library.npubank_tensor_uid(self._pointer)

    @property
    def digest(self):
        return "%016x%016x" % tuple(_told(ctypes.c_uint64 * 2, _library.npubank_tensor_digest, self._pointer))

    @property
    def detached(self):
        return bool(_library.npubank_tensor_detached(self._pointer))

    def detach(self):
        _library.npubank_tensor_detach(self._pointer)

    def evaluate(self):
        out = ctypes.create_string_buffer(max(self.type.bytes, 1))
        _check(_library.npubank_tensor_evaluate(self._pointer, out, self.type.bytes))
        return out.raw[:self.type.bytes]


class Index(_Object):
    """The stored tensors of a safetensors or GGUF file, or of a folder of shards, by name."""

    def __init__(self, path):
        super().__init__(_made(_library.npubank_index_open, os.fsencode(path)), _library.npubank_index_free)

    def __len__(self):
        return _library.npubank_index_count(self._pointer)

    def __iter__(self):
        for number in range(len(self)):
            yield _told(Stored, _library.npubank_index_get, self._pointer, number).name.decode()

    def __getitem__(self, name):
        return Tensor(_made(_library.npubank_tensor_stored, self._pointer, name.encode()))

    def stored(self, name):
        """Where it lies: file, offset, type, block_format. Valid while the index is open."""
        return _told(Stored, _library.npubank_index_find, self._pointer, name.encode())


class Memory(_Object):
    """A device's memory."""

    def __init__(self, pointer):
        super().__init__(pointer, _library.npubank_memory_free)

    @classmethod
    def host(cls, capacity=0):
        return cls(_made(_library.npubank_memory_host, ctypes.byref(HostOptions(capacity=capacity))))

    @classmethod
    def npu(cls, device="auto", strategy="auto", argument_alignment=0):
        options = NpuOptions(device=device.encode(), strategy=strategy.encode(), argument_alignment=argument_alignment)
        return cls(_made(_library.npubank_memory_npu, ctypes.byref(options)))

    @property
    def usage(self):
        return _told(Usage, _library.npubank_memory_usage, self._pointer)


class Owner(_Object):
    """Who registers tensors; when it is closed they are released."""


class Lease(_Object):
    """A tensor's bytes on the device, which do not move while this, or a view of it, lives."""

    def __init__(self, pointer):
        super().__init__(pointer, _library.npubank_lease_free)

    @property
    def facts(self):
        return _told(Facts, _library.npubank_lease_get_facts, self._pointer)

    @property
    def address(self):
        return self.facts.address

    @property
    def uid(self):
        return self.facts.uid

    @property
    def type(self):
        return self.facts.type

    def bytes_view(self):
        """All bytes as a memoryview that is only read: the memory itself, or the pages of the file that it is. Error
        UNIMPLEMENTED where the host can see neither: Bank.read copies."""
        facts = self.facts
        if facts.type.bytes == 0:
            return memoryview(b"")
        if facts.host_bytes:
            array = (ctypes.c_ubyte * facts.type.bytes).from_address(facts.host_bytes)
            array.held = self._held  # as long as anybody has a view
            return memoryview(array).toreadonly().cast("B")
        if facts.file_descriptor < 0:
            raise Error("UNIMPLEMENTED", "the host cannot read this memory in place: use Bank.read")
        before = facts.file_offset % mmap.ALLOCATIONGRANULARITY
        pages = mmap.mmap(facts.file_descriptor, before + facts.type.bytes, mmap.MAP_SHARED, mmap.PROT_READ,
                          offset=facts.file_offset - before)
        return memoryview(pages)[before:before + facts.type.bytes]

    def view(self):
        """The same with the tensor's dims, of numbers where Python has a word for the element: F16 and BF16 are their
        bits, and what has fewer than eight bits is bytes, flat."""
        form = _FORMATS.get(self.type.element)
        flat = self.bytes_view()
        return flat.cast(form[0], self.type.dims) if form and flat.nbytes and self.type.dims else flat

    def __buffer__(self, _):  # the buffer protocol itself, from Python 3.12 on
        return self.view()

    def __array__(self, *arguments, **options):  # numpy's way, in every version
        import numpy
        array = numpy.frombuffer(self.bytes_view(), dtype=_FORMATS.get(self.type.element, ("", "|u1"))[1])
        return array.reshape(self.type.dims) if self.type.element in _FORMATS else array


class Bank(_Object):
    """One copy of every weight on a memory, however many owners use it."""

    def __init__(self, memory, budget_bytes=0, keep_unowned=False, keep_equal_content_apart=False, threads=0,
                 cache=None, cache_limit_bytes=0):
        options = BankOptions(budget_bytes=budget_bytes, keep_unowned=keep_unowned, threads=threads,
                              keep_equal_content_apart=keep_equal_content_apart, cache_limit_bytes=cache_limit_bytes,
                              cache_path=None if cache is None else os.fsencode(cache))
        super().__init__(_made(_library.npubank_bank_create, memory._pointer, ctypes.byref(options)),
                         _library.npubank_bank_free)

    def owner(self, name, index=None):
        """`index` brings back what leaves the device; None: it stays."""
        none = index._pointer if index is not None else None
        return Owner(_made(_library.npubank_owner_add, self._pointer, name.encode(), none), _library.npubank_owner_free)

    def register(self, owner, tensor, name, alignment=0, pool=0):
        """Its uid. A tensor that is known already is detached. `alignment` of its address and `pool` of the memory's own
        are met, or it is refused."""
        uid, hit, hints = ctypes.c_uint64(), ctypes.c_int(), MemoryHints(alignment=alignment, pool=pool)
        _check(_library.npubank_bank_register_with(self._pointer, owner._pointer, tensor._pointer, name.encode(),
                                                   ctypes.byref(hints), ctypes.byref(uid), ctypes.byref(hit)))
        return uid.value

    def load(self, *owners, progress=None, cancelled=None):
        """Leases of all that they registered. `progress(done, total, tensor)`; `cancelled()` ends it where it is true."""
        options, raised = _load_options(progress, cancelled)
        pointers = _pointers(owners)
        leases = _settled(raised, lambda: _Handle(_made(_library.npubank_bank_load, self._pointer, pointers, len(owners),
                                                        ctypes.byref(options)), _library.npubank_leases_free))
        count = _library.npubank_leases_count(leases.pointer)
        return [Lease(_made(_library.npubank_leases_get, leases.pointer, number)) for number in range(count)]

    def load_one(self, name, tensor, progress=None, cancelled=None):
        options, raised = _load_options(progress, cancelled)
        return _settled(raised, lambda: Lease(_made(_library.npubank_bank_load_one, self._pointer, name.encode(),
                                                    tensor._pointer, ctypes.byref(options))))

    def wake(self, *owners, progress=None, cancelled=None):
        options, raised = _load_options(progress, cancelled)
        _settled(raised, lambda: _check(_library.npubank_bank_wake(self._pointer, _pointers(owners), len(owners),
                                                                   ctypes.byref(options))))

    def get(self, uid):
        return Lease(_made(_library.npubank_bank_get, self._pointer, uid))

    def read(self, uid, offset, size):
        out = ctypes.create_string_buffer(max(size, 1))
        _check(_library.npubank_bank_read(self._pointer, uid, offset, out, size))
        return out.raw[:size]

    def inspect(self, uid):
        """state, bytes, device_bytes, leases, owners; nothing becomes resident."""
        return _told(TensorState, _library.npubank_bank_inspect, self._pointer, uid)

    def sleep(self, *owners, keep_host_copy=False):
        options, report = SleepOptions(keep_host_copy=keep_host_copy), SleepReport()
        _check(_library.npubank_bank_sleep(self._pointer, _pointers(owners), len(owners), ctypes.byref(options),
                                           ctypes.byref(report)))
        return report

    def drop_host_copies(self, *owners):
        return _told(ctypes.c_uint64, _library.npubank_bank_drop_host_copies, self._pointer, _pointers(owners),
                     len(owners)).value

    def evict(self, bytes_):
        return bool(_library.npubank_bank_evict(self._pointer, bytes_))

    def trim(self):
        return _library.npubank_bank_trim(self._pointer)

    def set_budget(self, bytes_):
        _check(_library.npubank_bank_set_budget(self._pointer, bytes_))

    @property
    def totals(self):
        return _told(Totals, _library.npubank_bank_totals, self._pointer)

    def audit(self, other_device_bytes=0):
        """Error INTERNAL when the books and the device's counts differ."""
        _check(_library.npubank_bank_audit(self._pointer, other_device_bytes))

    def save_snapshot(self, path):
        _check(_library.npubank_bank_save_snapshot(self._pointer, os.fsencode(path)))

    def save_cache(self):
        _check(_library.npubank_bank_save_cache(self._pointer))


def _pointers(owners):
    return (ctypes.c_void_p * len(owners))(*(owner._pointer.value for owner in owners))


def _load_options(progress, cancelled):
    """Options whose callbacks never raise into the library: what they raise ends the load, and is kept."""
    raised = []

    def guarded(call, result):
        def guard(*arguments):
            try:
                return call(*arguments) or 0
            except BaseException as error:  # pylint: disable=broad-except
                raised.append(error)
                return result
        return guard

    options = LoadOptions()
    if progress is not None:
        report = guarded(lambda _, done, total, tensor: progress(done, total, tensor.decode()), 0)
        options.progress = PROGRESS(lambda *arguments: report(*arguments) and None)
    asked = guarded(lambda _: bool(cancelled is not None and cancelled()), 1)
    options.cancelled = CANCELLED(lambda user: 1 if raised else int(asked(user)))
    return options, raised


def _settled(raised, call):
    """What `call` gives; but what a callback raised meanwhile goes before it."""
    try:
        result = call()
    except Error:
        if not raised:
            raise
    if raised:
        result = None
        raise raised[0]
    return result
