"""How far ahead clients may run, and in which order launches of several sessions go."""

import pathlib
import unittest

from cluster import Up

PRELUDE = """
import os
import jax, jax.numpy as jnp, numpy as np
from jax.extend import backend
from jax.extend.backend import ifrt_proxy

def connect(**words):
    def client():
        options = ifrt_proxy.ClientConnectionOptions()
        options.initialization_data = {name: str(word).encode() for name, word in words.items()}
        options.connection_timeout_in_seconds = 10  # a refused client tries again for so long
        return ifrt_proxy.get_client(os.environ["JAX_BACKEND_TARGET"], options)
    backend.register_backend_factory("proxy", client, priority=1)
"""


def resident_peak(pid):
    """Most bytes that the process ever had in memory."""
    for line in pathlib.Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) << 10
    raise AssertionError(f"no peak of process {pid}")


class RunningAhead(unittest.TestCase):
    def run_ok(self, up, script):
        done = up.run(PRELUDE + script)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr[-4000:])
        return done.stdout.splitlines()[-1]

    def test_20000_steps_ahead_in_a_small_memory_are_slowed_not_killed(self):
        # 64 KiB a shard, 1 MiB a device: 16 steps fit ahead, and the client asks for nothing until the end.
        with Up((1, 2, 1), ("--device-memory=1048576",)) as up:
            chain = """
from jax.sharding import Mesh, NamedSharding, PartitionSpec as P
mesh = Mesh(np.array(jax.devices()), ("x",))
x = jax.device_put(np.zeros(32768, np.float32), NamedSharding(mesh, P("x")))
step = jax.jit(lambda a: a + 1)
for _ in range({steps}): x = step(x)
print(float(x[0]), float(x[-1]))
"""
            self.assertEqual(self.run_ok(up, chain.format(steps=200)), "200.0 200.0")
            [proxy] = up.children("proxy")
            before = resident_peak(proxy)
            self.assertEqual(self.run_ok(up, chain.format(steps=20000)), "20000.0 20000.0")
            self.assertLess(resident_peak(proxy) - before, 64 << 20)

    def test_host_arrays_ahead_of_memory_wait_for_it(self):
        # 1 MiB an array, 8 MiB a device: the client makes 400 of them and drops each after its use.
        with Up((1, 1, 1), ("--device-memory=8388608", "--launches-ahead=8")) as up:
            out = self.run_ok(up, """
add = jax.jit(lambda a, b: a + b.sum())
total = jax.device_put(np.float32(0))
for i in range(400): total = add(total, jax.device_put(np.full(1 << 18, i, np.float32)) / (1 << 18))
print(float(total))
""")
            self.assertEqual(out, f"{400 * 399 / 2:.1f}")

    def test_what_never_fits_names_the_holders(self):
        with Up((1, 1, 1), ("--device-memory=1048576",)) as up:
            out = self.run_ok(up, """
kept = [jax.device_put(np.zeros(1 << 16, np.float32)) for _ in range(3)]
try:
    jax.block_until_ready(jax.jit(lambda a: jnp.concatenate([a, a]))(kept[0]))
except jax.errors.JaxRuntimeError as error:
    print(str(error).replace("\\n", " "))
""")
            self.assertIn("RESOURCE_EXHAUSTED", out)
            self.assertIn("this session's arrays hold 786432 bytes", out)


class Policies(unittest.TestCase):
    @staticmethod
    def script(weight, priority):
        return PRELUDE + f"connect(weight={weight}, priority={priority})" + """
x = jnp.zeros(())
step = jax.jit(lambda a: jax.lax.fori_loop(0, 10, lambda _, v: v + 1, a))
for _ in range(300): x = step(x)
print("end", float(x))
"""

    def test_every_policy_computes_the_same(self):
        for policy in ("priority", "share", "pipeline"):
            with self.subTest(policy), Up((1, 2, 1), (f"--policy={policy}", "--launches-ahead=16")) as up:
                clients = [up.popen(self.script(weight=i + 1, priority=-i)) for i in range(3)]
                outputs = [client.communicate(timeout=120)[0] for client in clients]
                self.assertEqual([client.returncode for client in clients], [0, 0, 0], outputs)
                for output in outputs:
                    self.assertIn("end 3000.0", output.splitlines())

    def test_a_bad_weight_is_refused_with_a_sentence(self):
        with Up((1, 1, 1)) as up:
            done = up.run(self.script(weight=0, priority=0))
            self.assertNotEqual(done.returncode, 0)
            self.assertIn('weight "0" isn\'t a whole number from 1 to 1000000', done.stderr)


if __name__ == "__main__":
    unittest.main()
