"""A checkpoint's tensors on a device, from Python: python_runtime.py MODEL

MODEL is a safetensors or GGUF file, or a folder of shards. Needs nothing but npubank; numpy, where there is one, reads a weight
in place."""
import sys

import npubank


def main(path):
    with npubank.Memory.host() as memory, npubank.Bank(memory) as bank, npubank.Index(path) as index:
        with bank.owner("prefill", index) as prefill, bank.owner("kvcache", index) as kvcache:
            for name in index:
                bank.register(prefill, index[name], name)
                bank.register(kvcache, index[name], name)  # known already: a weight is there once
            leases = bank.load(prefill, kvcache)
            totals = bank.totals
            print(f"{totals.unique_tensors} tensors, {totals.resident_bytes} bytes, used twice: "
                  f"{totals.shared_bytes_saved} bytes saved")
            first = leases[0]
            try:
                import numpy
                print(f"{first.type}: numpy at {numpy.asarray(first).ctypes.data:#x}, the bank at {first.facts.host_bytes:#x}")
            except ImportError:
                print(f"{first.type}: {first.view().nbytes} bytes, read in place")
            del first, leases
            print(f"asleep: {bank.sleep(prefill, kvcache).bytes_given_back} bytes given back")
            bank.wake(prefill, kvcache)  # opens the files again
            bank.audit()
    print(f"{len(npubank.live_objects())} things left")
    return len(npubank.live_objects())


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
