"""Memory of devices: what is too much is refused with a list of who holds it; arrays of more than 2 GiB."""

import re
import unittest

from cluster import Up

FULL = """
import jax, jax.numpy as jnp, numpy as np
device = jax.devices()[1]
make = jax.jit(lambda x: jnp.zeros((1 << 20,), jnp.float32) + x)
held = []
def keep_results(): held.append(make(jax.device_put(np.float32(1), device)))
def keep_batches(): held.append(jax.device_put(np.ones(1 << 18, np.float32), device))
for _ in range(3): keep_results()
for _ in range(2): keep_batches()
jax.block_until_ready(held)
try:
    jax.block_until_ready([make(held[0][0]) for _ in range(20)])
    print("fitted")
except Exception as error:
    print(f"{type(error).__name__}: {error}")
"""

# Put, compute with, shard and read back an array of more than 2 GiB. Rows differ and have an odd length, so that a piece
# in the wrong place shows; nothing is kept longer than it must be.
LARGE = """
import jax, jax.numpy as jnp, numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec as P
rows, columns = 514, (1 << 22) + 3   # 2.008 GiB
pattern = np.resize(np.arange(251, dtype=np.uint8), columns)
def make():
    host = np.empty((rows, columns), np.uint8)
    for i in range(rows): np.add(pattern, np.uint8(i % 256), out=host[i])
    return host
def check(where, what):
    put = jax.device_put(make(), where)
    sums = np.asarray(jax.jit(lambda a: a[:, ::65537].astype(jnp.int32).sum(1))(put))
    for i in range(rows):
        assert sums[i] == (pattern[::65537] + np.uint8(i % 256)).astype(np.int32).sum(), (what, i)
    got = np.asarray(put)
    put.delete()
    assert got.shape == (rows, columns) and got.dtype == np.uint8
    for i in range(rows): assert (got[i] == pattern + np.uint8(i % 256)).all(), (what, i)
    print(what, flush=True)
check(jax.devices()[0], "one device")
check(NamedSharding(Mesh(np.array(jax.devices()), ("x",)), P("x")), "sharded")
"""


def free_gib():
    with open("/proc/meminfo") as info:
        return int(re.search(r"MemAvailable:\s+(\d+)", info.read()).group(1)) / 2**20


class OutOfMemory(unittest.TestCase):
    def test_the_error_lists_who_holds_the_device(self):
        with Up((1, 1, 2), ["--device-memory", str(20 << 20)]) as up:
            done = up.run(FULL)
            text = done.stdout
            self.assertIn("RESOURCE_EXHAUSTED", text, done.stderr[-3000:])
            self.assertIn("Pathways object-store summary for device slice slice0 host 0 device 1", text)
            self.assertRegex(text, r"result of jit__lambda with \d+ 'ready' buffers of total size \d+")
            self.assertRegex(text, r"array from the host with \d+ 'ready' buffers of total size \d+")
            # By the Python lines that made them.
            self.assertIn("keep_results", text)
            self.assertIn("keep_batches", text)


class LargeArrays(unittest.TestCase):
    # On one machine all have the array at once while it is read: the client four times, worker (or workers) twice, the proxy
    # once.
    @unittest.skipIf(free_gib() < 17, "needs 17 GiB of free memory")
    def test_more_than_2_gib(self):
        with Up((1, 2, 1)) as up:
            done = up.run(LARGE, timeout=1200)
            self.assertEqual(done.returncode, 0, done.stdout + done.stderr[-3000:])
            self.assertEqual(done.stdout.split("\n")[:2], ["one device", "sharded"])


if __name__ == "__main__":
    unittest.main()
