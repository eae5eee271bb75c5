"""npubank from Python. NPUBANK_LIBRARY is the library; a model comes and goes 1,000 times, in `tests/run full` 10,000."""
import array
import ctypes
import gc
import json
import os
import struct
import tempfile
import threading
import unittest

import npubank

try:
    import numpy
except ImportError:
    numpy = None

LOADS = 10000 if os.environ.get("NPUBANK_FULL") == "1" else 1000


def write_checkpoint(path):
    header = json.dumps({"wq": {"dtype": "F32", "shape": [2, 3], "data_offsets": [0, 24]}}).encode()
    header += b" " * (-len(header) % 64 + 56)  # data at a multiple of 64
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(header)) + header + array.array("f", range(6)).tobytes())


class Case(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.path = os.path.join(self.folder.name, "model.safetensors")
        write_checkpoint(self.path)
        self.memory = npubank.Memory.host()
        self.bank = npubank.Bank(self.memory)
        self.index = npubank.Index(self.path)

    def tearDown(self):
        for thing in (self.index, self.bank, self.memory):
            thing.close()
        self.folder.cleanup()

    def expect_code(self, code, call, *arguments, **options):
        with self.assertRaises(npubank.Error) as raised:
            call(*arguments, **options)
        self.assertEqual(raised.exception.code, code, raised.exception.text)
        return raised.exception.text


class Banks(Case):
    def test_weights_are_loaded_and_read_in_place(self):
        with self.bank.owner("prefill", self.index) as owner:
            uid = self.bank.register(owner, self.index["wq"].permute(1, 0), "wq")
            self.assertEqual(self.bank.inspect(uid).state, b"registered")
            steps = []
            [lease] = self.bank.load(owner, progress=lambda done, total, tensor: steps.append((done, total, tensor)))
            self.assertEqual(steps, [(24, 24, "wq")])
            self.assertEqual(lease.view().tolist(), [[0, 3], [1, 4], [2, 5]])
            self.assertTrue(lease.view().readonly)
            self.assertEqual((lease.uid, lease.type.dims, lease.facts.strategy), (uid, [3, 2], b"host"))
            self.assertEqual(self.bank.read(uid, 4, 4), struct.pack("f", 3))
            lease.close()

    def test_a_view_keeps_the_bytes_when_its_lease_is_closed(self):
        with self.bank.load_one("demo", self.index["wq"]) as lease:
            view = lease.view()
        self.assertEqual(self.bank.totals.device_bytes, 4096)
        self.assertEqual(view.tolist()[1], [3, 4, 5])
        self.expect_code("FAILED_PRECONDITION", lambda: lease.address)
        del view
        gc.collect()
        self.assertEqual(self.bank.totals.device_bytes, 0)

    @unittest.skipIf(numpy is None, "numpy is not installed: memoryview stands for it")
    def test_numpy_reads_weights_without_a_copy(self):
        with self.bank.load_one("demo", self.index["wq"]) as lease:
            weights = numpy.asarray(lease)
            self.assertEqual(weights.ctypes.data, lease.facts.host_bytes)
            self.assertEqual(weights.tolist(), [[0, 1, 2], [3, 4, 5]])

    def test_what_is_evicted_comes_back(self):
        with self.bank.owner("prefill", self.index) as owner:
            uid = self.bank.register(owner, self.index["wq"].convert("F16"), "wq")
            self.bank.load(owner)
            gc.collect()
            self.assertTrue(self.bank.evict(1))
            self.assertEqual(self.bank.inspect(uid).state, b"evicted")
            self.bank.wake(owner)
            self.assertEqual(self.bank.inspect(uid).state, b"resident")
            self.assertEqual(self.bank.sleep(owner).bytes_given_back, 4096)
            with self.bank.get(uid) as lease:
                self.assertEqual(lease.view().tolist()[1], [0x4200, 0x4400, 0x4500])
            self.bank.audit()

    def test_a_tensor_lies_where_it_is_wanted_or_is_refused(self):
        with self.bank.owner("prefill", self.index) as owner:
            uid = self.bank.register(owner, self.index["wq"], "wq", alignment=1 << 16)
            with self.bank.get(uid) as lease:
                self.assertEqual(lease.address % (1 << 16), 0)
            self.assertEqual((self.bank.inspect(uid).alignment, self.bank.inspect(uid).pool), (1 << 16, 0))
            self.assertIn("pool 1", self.expect_code("UNIMPLEMENTED", self.bank.register, owner, self.index["wq"], "wq", pool=1))
            self.expect_code("INVALID_ARGUMENT", self.bank.register, owner, self.index["wq"], "wq", alignment=3)

    def test_errors_have_a_code_and_name_what_they_are_about(self):
        self.assertIn("wk", self.expect_code("NOT_FOUND", lambda: self.index["wk"]))
        self.assertIn("/nowhere", self.expect_code("NOT_FOUND", npubank.Index, "/nowhere"))
        self.expect_code("INVALID_ARGUMENT", self.index["wq"].reshape, 7)
        self.expect_code("NOT_FOUND", self.bank.get, 1)
        self.expect_code("RESOURCE_EXHAUSTED", npubank.Bank(npubank.Memory.host(4096)).load_one, "large",
                         npubank.Tensor.splat("F32", [4096], 0))
        self.expect_code("CANCELLED", self.bank.load_one, "wq", self.index["wq"], cancelled=lambda: True)
        self.index.close()
        self.expect_code("FAILED_PRECONDITION", lambda: len(self.index))

    def test_numbers_that_c_has_no_room_for_are_refused_and_not_cut_off(self):
        for number in (-1, 1 << 64, (1 << 64) + 4096):
            for call in (self.bank.set_budget, self.bank.evict, self.bank.get, npubank.Memory.host, self.bank.audit,
                         lambda size: self.bank.read(0, size, 1), lambda bits: npubank.Tensor.splat("F32", [1], bits),
                         lambda alignment: npubank.Memory.npu("software", argument_alignment=alignment)):
                with self.assertRaises((ValueError, ctypes.ArgumentError)):
                    call(number)
        self.assertEqual(self.bank.totals.budget, 0)

    def test_what_a_callback_raises_ends_the_load_and_comes_out(self):
        def raises(*_):
            raise KeyError("mine")

        with self.assertRaises(KeyError):
            self.bank.load_one("wq", self.index["wq"], cancelled=raises)
        with self.assertRaises(KeyError):
            self.bank.load_one("wq", self.index["wq"], progress=raises)
        self.assertEqual(self.memory.usage.live_allocations, 0)

    def test_threads_share_a_weight(self):
        def load():
            for _ in range(20):
                with self.bank.load_one("wq", self.index["wq"]) as lease:
                    found.append(lease.view()[1, 2])

        found, threads = [], [threading.Thread(target=load) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(found, [5] * 80)

    def test_a_cache_and_a_snapshot_are_written(self):
        cache, snapshot = (os.path.join(self.folder.name, name) for name in ("weights.cache", "run.bank"))
        for transformed in (1, 0):
            with npubank.Bank(self.memory, cache=cache, threads=2) as bank:
                bank.load_one("wq", self.index["wq"].convert("F16")).close()
                self.assertEqual(bank.totals.transformations, transformed)
                bank.save_cache()
                bank.save_snapshot(snapshot)
        self.assertGreater(os.path.getsize(snapshot), 0)
        self.bank.set_budget(1 << 20)
        self.assertEqual(self.bank.totals.budget, 1 << 20)
        self.assertEqual(self.bank.trim(), 0)

    def test_weights_are_loaded_on_an_npu(self):
        lines = []
        npubank.set_log(lines.append)
        memory = npubank.Memory.npu("software", "tiled")
        npubank.set_log(None)
        self.assertEqual(len(lines), 1, "this driver has no virtual memory")
        with npubank.Bank(memory) as bank, bank.load_one("wq", self.index["wq"]) as lease:
            self.assertEqual(bank.read(lease.uid, 20, 4), struct.pack("f", 5))
        memory.close()


class Tensors(Case):
    def expect(self, tensor, form, values):
        self.assertEqual(tensor.evaluate(), array.array(form, values).tobytes())

    def test_every_operation(self):
        wq, tensor = self.index["wq"], npubank.Tensor
        self.assertEqual((len(self.index), list(self.index), self.index.stored("wq").type.dims), (1, ["wq"], [2, 3]))
        self.expect(wq.permute(1, 0), "f", [0, 3, 1, 4, 2, 5])
        self.expect(wq.slice([0, 1], [2, 1]), "f", [1, 4])
        self.expect(wq.reshape(6), "f", range(6))
        self.expect(tensor.concat([wq, wq], 0), "f", [*range(6), *range(6)])
        self.expect(wq.convert("F16"), "H", [0, 0x3C00, 0x4000, 0x4200, 0x4400, 0x4500])
        four = tensor.from_bytes("U8", [1, 4], bytes([0, 1, 130, 255]))
        self.expect(four.shift(), "B", [128, 129, 2, 127])
        self.expect(four.unpack(tensor.from_bytes("F32", [1, 1], struct.pack("f", 2))), "f", [0, 2, 260, 510])
        self.expect(tensor.from_bytes("U4", [4], b"\x01\x10").gather(tensor.from_bytes("U8", [16], range(16))), "B",
                    [1, 0, 0, 1])
        self.expect(tensor.from_bytes("I32", [1, 1], struct.pack("I", 0x76543210)).unpack_nibbles(2), "I", [0x76543210])
        block = tensor.from_bytes("U8", [1, 34], b"\0\x40" + bytes(range(32)))
        self.expect(block.dequantize_blocks(8), "f", range(0, 64, 2))
        self.expect(block.copy_block_plane(8, 0), "B", range(32))
        self.expect(tensor.splat("F16", [2], 0x3C00), "H", [0x3C00] * 2)
        self.assertEqual(wq.digest, self.index["wq"].digest)
        self.assertEqual(wq.uid, self.index["wq"].uid)
        wq.detach()
        self.assertTrue(wq.detached)


class Leaks(Case):
    def test_nothing_is_left_however_often_a_model_comes_and_goes(self):
        def resident_kib():
            with open("/proc/self/statm", encoding="ascii") as file:
                return int(file.read().split()[1]) * (os.sysconf("SC_PAGESIZE") // 1024)

        def come_and_go():
            with self.bank.owner("model", self.index) as owner:
                self.bank.register(owner, self.index["wq"].convert("F16"), "wq")
                [lease] = self.bank.load(owner)
                self.assertEqual(lease.view()[1, 2], 0x4500)
                lease.close()

        for _ in range(LOADS // 10):
            come_and_go()
        gc.collect()
        before, kib, files = npubank.live_objects(), resident_kib(), len(os.listdir("/proc/self/fd"))
        for _ in range(LOADS):
            come_and_go()
        gc.collect()
        self.assertEqual(npubank.live_objects(), before)
        self.assertEqual(len(os.listdir("/proc/self/fd")), files)
        self.assertEqual(self.memory.usage.live_allocations, 0)
        self.assertLess(resident_kib() - kib, 1024 + LOADS // 50, "KiB more than before")


if __name__ == "__main__":
    unittest.main()
