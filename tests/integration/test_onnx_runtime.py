"""A runtime that nobody here wrote maps what bank-export writes: ONNX Runtime, its prebuilt library as it is.

For tests by hand: where nobody has put it (`npm install --ignore-scripts onnxruntime-node`, in a folder that
NPUBANK_ONNX_RUNTIME names) it says so and skips. NPUBANK_BIN: the folder of the programs.
"""
import json
import os
import subprocess
import tempfile
import unittest

BIN = os.environ["NPUBANK_BIN"]
RUNTIME = os.environ.get("NPUBANK_ONNX_RUNTIME")
HERE = os.path.dirname(os.path.abspath(__file__))
PREFILL, DECODE = 64, 1  # rows of a submodel's input
WIDTH = 1024
SESSIONS = 8
FLOAT = 1  # ONNX's number of the type


def varint(number):
    parts = []
    while number > 127:
        parts.append(number & 127 | 128)
        number >>= 7
    return bytes([*parts, number])


def message(*fields):
    """A protobuf message of (number, an int, text, or a message's bytes)."""
    out = bytearray()
    for number, value in fields:
        if isinstance(value, int):
            out += varint(number << 3) + varint(value)
        else:
            value = value.encode() if isinstance(value, str) else value
            out += varint(number << 3 | 2) + varint(len(value)) + value
    return bytes(out)


def matrix(name, rows, columns):
    """A ValueInfoProto."""
    shape = message(*((1, message((1, dim))) for dim in (rows, columns)))
    return message((1, name), (2, message((1, message((1, FLOAT), (2, shape))))))


class Chain:
    """A graph in which every weight is multiplied once, and every product reaches an output."""

    def __init__(self, rows, width):
        self.nodes, self.weights, self.latest, self.rows = [], [], {width: "x"}, rows
        self.inputs = [(11, matrix("x", rows, width))]

    def node(self, operation, name, *inputs):
        self.nodes.append((1, message(*((1, one) for one in inputs), (2, name), (3, name), (4, operation))))
        return name

    def multiply(self, weight, initializer):
        """By its TensorProto, or by what the caller gives to each run."""
        rows, columns = weight["shape"]
        if initializer:
            self.weights.append((5, initializer))
        else:
            self.inputs.append((11, matrix(weight["name"], rows, columns)))
        product = self.node("MatMul", f"product of {weight['name']}", self.latest[rows], weight["name"])
        if columns in self.latest:
            product = self.node("Add", f"sum with {weight['name']}", self.latest[columns], product)
        self.latest[columns] = product

    def model(self):
        outputs = [(12, matrix(name, self.rows, width)) for width, name in self.latest.items()]
        graph = message(*self.nodes, (2, "chain"), *self.weights, *self.inputs, *outputs)
        return message((1, 8), (7, graph), (8, message((2, 13))))


def tensor(weight, *place):
    return message(*((1, dim) for dim in weight["shape"]), (2, FLOAT), (8, weight["name"]), *place)


def external(weight, file):
    """A TensorProto whose bytes lie in another file, as ONNX has it."""
    entries = (("location", file), ("offset", str(weight["offset"])), ("length", str(weight["bytes"])))
    return tensor(weight, *((13, message((1, key), (2, value))) for key, value in entries), (14, 1))


class OnnxRuntime(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        if not RUNTIME:
            raise unittest.SkipTest("NPUBANK_ONNX_RUNTIME names no folder with ONNX Runtime")
        cls.folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(cls.folder.cleanup)
        model, cls.out = (os.path.join(cls.folder.name, name) for name in ("model", "out"))
        cls.program("make-checkpoint", "--out", model, "--layers", "3", "--hidden", str(WIDTH), "--heads", "16", "--kv-heads",
                    "4", "--intermediate", "4096", "--vocab", "2000")
        # Of BF16 as it is stored, transposed: both are the bank's work.
        cls.program("bank-export", "--model", model, "--weights", "f32", "--out", cls.out)
        with open(os.path.join(cls.out, "weights.json"), encoding="utf-8") as file:
            cls.manifest = json.load(file)
        cls.weights = [weight for weight in cls.manifest["weights"] if len(weight["shape"]) == 2]
        cls.bytes = sum(weight["bytes"] for weight in cls.weights)

    @staticmethod
    def program(name, *arguments):
        subprocess.run([os.path.join(BIN, name), *arguments], check=True, stdout=subprocess.DEVNULL)

    def write(self, kind, initializer):
        """A model for each phase, whose weights `initializer` makes; their paths, as many as there are sessions."""
        paths = []
        for rows in (PREFILL, DECODE):
            chain, left = Chain(rows, WIDTH), list(self.weights)
            while left:
                weight = next(weight for weight in left if weight["shape"][0] in chain.latest)
                left.remove(weight)
                chain.multiply(weight, initializer(weight))
            paths.append(os.path.join(self.out, f"{kind}-{rows}.onnx"))
            with open(paths[-1], "wb") as file:
                file.write(chain.model())
        return paths * (SESSIONS // len(paths))

    def run_sessions(self, models):
        result = subprocess.run(["node", "--expose-gc", os.path.join(HERE, "weights", "onnx_runtime.mjs"), RUNTIME, *models],
                                capture_output=True, text=True, check=False)
        self.assertEqual(result.returncode, 0, result.stderr)
        report = json.loads(result.stdout)
        return report["pss"] - report["pss_before"], report["outputs"]

    def test_eight_sessions_on_an_exported_file_have_its_weights_once(self):
        with open(os.path.join(self.out, self.manifest["file"]), "rb") as file:
            data = file.read()

        def embedded(weight):
            return tensor(weight, (9, data[weight["offset"]:weight["offset"] + weight["bytes"]]))

        without, zeros = self.run_sessions(self.write("without", lambda weight: None))
        shared, outputs = self.run_sessions(self.write("external", lambda weight: external(weight, self.manifest["file"])))
        copied, expected = self.run_sessions(self.write("embedded", embedded))
        print(f"W {self.bytes} bytes in {len(self.weights)} weights; {SESSIONS} sessions have {without} without weights, "
              f"{shared} ({(shared - without) / self.bytes:.3f} W) with the exported file, "
              f"{copied} ({(copied - without) / self.bytes:.3f} W) with weights of their own", flush=True)
        self.assertEqual(outputs, expected)
        self.assertNotEqual(outputs, zeros)
        self.assertLessEqual(shared, 1.05 * self.bytes + without)
        self.assertGreater(copied, 7 * self.bytes, "the control shows nothing: it does not copy either")


if __name__ == "__main__":
    unittest.main(verbosity=2)  # which says why it skips
