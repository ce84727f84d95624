"""Training over all devices: plain CPU JAX's losses, and the same bits of every parameter on every shape and in every run."""

import json
import pathlib
import tempfile
import unittest

from cluster import ROOT, SHAPES, plain_cpu, run_on_cluster

SCRIPT = """
import hashlib, json, sys
sys.path.insert(0, {examples!r})
import jax, numpy as np, train_lm
mesh = train_lm.make_mesh()
state, step = train_lm.init(mesh), train_lm.compile_step(mesh)
source, losses = train_lm.batches(train_lm.corpus(), 16, 1), []
rows = jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec(("data", "fsdp")))
for _ in range({steps}):
    state, loss = step(state, jax.device_put(next(source), rows))
    losses.append(loss)
leaves = [np.asarray(x) for x in jax.tree.leaves(state)]
print(json.dumps({{
    "losses": [float(x) for x in losses],
    "l1": float(sum(np.abs(x, dtype=np.float64).sum() for x in leaves)),
    "bits": hashlib.sha256(b"".join(x.tobytes() for x in leaves)).hexdigest(),
}}))
"""


class Training(unittest.TestCase):
    def test_plain_cpu_numbers_and_the_same_bits_everywhere(self):
        with tempfile.TemporaryDirectory() as folder:
            script = pathlib.Path(folder) / "train.py"
            script.write_text(SCRIPT.format(examples=str(ROOT / "examples"), steps=20))
            expected = json.loads(plain_cpu([script]).splitlines()[-1])
            bits, compiled = set(), []
            for shape in SHAPES + SHAPES[:1]:
                flags = [f"--compile-cache-dir={folder}/cache"]
                if shape == (4, 2, 1):
                    flags.append("--transport=tcp")  # as between hosts
                actual = json.loads(run_on_cluster(shape, [script], flags).splitlines()[-1])
                with self.subTest(shape=shape):
                    for a, b in zip(actual["losses"], expected["losses"], strict=True):
                        self.assertAlmostEqual(a, b, delta=2e-3 * abs(b))
                    self.assertAlmostEqual(actual["l1"], expected["l1"], delta=2e-3 * expected["l1"])
                bits.add(actual["bits"])
                compiled.append(sorted(path.name for path in pathlib.Path(folder, "cache").iterdir()))
            self.assertEqual(len(bits), 1, "the shapes differ in bits")
            self.assertEqual(compiled, compiled[:1] * len(compiled), "another process compiled what was in the cache")


if __name__ == "__main__":
    unittest.main()
