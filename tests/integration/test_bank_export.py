"""bank-export as a user meets it. NPUBANK_BIN: the folder of the programs."""
import json
import os
import random
import resource
import signal
import struct
import subprocess
import tempfile
import time
import unittest

BIN = os.environ["NPUBANK_BIN"]
KILLS = 100 if os.environ.get("NPUBANK_FULL") == "1" else 10
SEED = int(os.environ.get("NPUBANK_SEED") or random.SystemRandom().randrange(1 << 30))


def run(*arguments, **options):
    return subprocess.run([os.path.join(BIN, arguments[0]), *arguments[1:]], capture_output=True, text=True, check=False, **options)


def stored_tensors(path):
    """Name: bytes, of a safetensors file."""
    with open(path, "rb") as file:
        data = file.read()
    length = struct.unpack("<Q", data[:8])[0]
    header = json.loads(data[8:8 + length])
    return {name: data[8 + length + tensor["data_offsets"][0]:8 + length + tensor["data_offsets"][1]]
            for name, tensor in header.items() if name != "__metadata__"}


class Exports(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.model = os.path.join(cls.folder.name, "model")
        made = run("make-checkpoint", "--out", cls.model, "--layers", "2", "--hidden", "256", "--heads", "4", "--kv-heads",
                   "2", "--intermediate", "512", "--vocab", "2000")
        assert made.returncode == 0, made.stderr

    @classmethod
    def tearDownClass(cls):
        cls.folder.cleanup()

    def setUp(self):
        self.out = tempfile.mkdtemp(dir=self.folder.name)

    def export(self, weights, **options):
        return run("bank-export", "--model", self.model, "--weights", weights, "--out", self.out, **options)

    def manifest(self):
        with open(os.path.join(self.out, "weights.json"), encoding="utf-8") as file:
            return json.load(file)

    def exported(self):
        """Name: bytes, as a program finds them that knows the manifest only."""
        manifest, found = self.manifest(), {}
        with open(os.path.join(self.out, manifest["file"]), "rb") as file:
            data = file.read()
        for weight in manifest["weights"]:
            self.assertEqual(weight["offset"] % 4096, 0, weight)
            bits = {"BF16": 16, "F16": 16, "F32": 32}[weight["type"]]
            elements = 1
            for dim in weight["shape"]:
                elements *= dim
            self.assertEqual(weight["bytes"] * 8, elements * bits, weight)
            self.assertEqual(len(weight["digest"]), 32)
            found[weight["name"]] = data[weight["offset"]:weight["offset"] + weight["bytes"]]
            self.assertEqual(len(found[weight["name"]]), weight["bytes"], "beyond the end of the file")
        return found

    def test_kept_weights_are_the_files_bytes_on_pages_of_their_own(self):
        result = self.export("keep")
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertEqual(self.exported(), stored_tensors(os.path.join(self.model, "model.safetensors")))
        self.assertEqual(sorted(os.listdir(self.out)), sorted(["weights.json", self.manifest()["file"]]))

    def test_a_bank_that_is_given_the_file_transforms_nothing(self):
        self.assertEqual(self.export("f16").returncode, 0)
        cache = os.path.join(self.out, self.manifest()["file"])
        result = run("bank-run", "--model", self.model, "--weights", "f16", "--cache", cache, "--device", "software",
                     "--prompt-ids", "1,2", "--tokens", "2", "--report", "json")
        self.assertEqual(result.returncode, 0, result.stderr)
        report = json.loads(result.stdout)
        self.assertGreater(report["cache_hits"], 0)
        self.assertEqual(report["transformations"], 0)

    def test_another_export_replaces_the_one_before(self):
        self.assertEqual(self.export("keep").returncode, 0)
        first = self.manifest()
        self.assertEqual(self.export("f32").returncode, 0)
        second = self.manifest()
        self.assertNotEqual(first["file"], second["file"])
        self.assertEqual(sorted(os.listdir(self.out)), sorted(["weights.json", second["file"]]))
        self.assertEqual(self.export("f32").returncode, 0)
        self.assertEqual(self.manifest(), second)

    def test_a_full_disk_is_an_error_and_leaves_the_folder_as_it_was(self):
        def little_room():
            signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
            resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 20, 1 << 20))

        result = self.export("f32", preexec_fn=little_room)
        self.assertEqual(result.returncode, 1)
        self.assertIn("error: ", result.stderr)
        self.assertEqual(os.listdir(self.out), [])
        self.assertEqual(self.export("keep").returncode, 0)
        before = self.manifest(), sorted(os.listdir(self.out))
        self.assertEqual(self.export("f32", preexec_fn=little_room).returncode, 1)
        self.assertEqual((self.manifest(), sorted(os.listdir(self.out))), before)
        self.exported()

    def test_a_number_that_f16_cannot_hold_is_named_and_nothing_is_left(self):
        path = os.path.join(self.model, "model.safetensors")
        with open(path, "rb") as file:
            whole = file.read()
        length = struct.unpack("<Q", whole[:8])[0]
        tensor = json.loads(whole[8:8 + length])["model.layers.1.mlp.down_proj.weight"]
        self.assertEqual(tensor["dtype"], "BF16")
        at = 8 + length + tensor["data_offsets"][0] + 2 * 7
        try:
            with open(path, "wb") as file:
                file.write(whole[:at] + b"\x7f\x7f" + whole[at + 2:])
            result = self.export("f16")
        finally:
            with open(path, "wb") as file:
                file.write(whole)
        self.assertEqual(result.returncode, 1)
        self.assertIn("model.layers.1.mlp.down_proj.weight", result.stderr)
        self.assertEqual(os.listdir(self.out), [])

    def test_killed_at_any_moment_there_is_the_old_export_or_the_new_one(self):
        print(f"NPUBANK_SEED={SEED}", flush=True)
        chance = random.Random(SEED)
        begin = time.monotonic()
        self.assertEqual(self.export("f32").returncode, 0)
        whole = time.monotonic() - begin
        contents = {"f32": self.exported()}
        self.assertEqual(self.export("f16").returncode, 0)
        contents["f16"] = self.exported()
        for kill in range(KILLS):
            weights = ("f32", "f16")[kill % 2]
            command = [os.path.join(BIN, "bank-export"), "--model", self.model, "--weights", weights, "--out", self.out]
            with subprocess.Popen(command, stdout=subprocess.DEVNULL) as process:
                time.sleep(chance.uniform(0, whole))
                process.kill()
            self.assertIn(self.exported(), list(contents.values()), f"kill {kill}")
        self.assertEqual(self.export("f16").returncode, 0)
        self.assertEqual(self.exported(), contents["f16"])
        self.assertEqual(sorted(os.listdir(self.out)), sorted(["weights.json", self.manifest()["file"]]))

    def test_what_is_wrong_is_said_on_one_line(self):
        for arguments, word in (([], "--model"), (["--model", "/nowhere", "--out", self.out], "/nowhere"),
                                (["--model", self.model, "--out", self.out, "--weights", "f17"], "f17"),
                                (["--model", self.model, "--out", "/dev/null/x"], "/dev/null")):
            result = run("bank-export", *arguments)
            self.assertEqual((result.returncode, result.stderr.count("\n")), (1, 1), result.stderr)
            self.assertIn(word, result.stderr)


if __name__ == "__main__":
    unittest.main()
