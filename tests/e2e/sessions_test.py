"""Clients side by side, leased slices, devices as the client sees them, compiling without chips, errors that travel."""

import json
import re
import subprocess
import sys
import unittest

from cluster import BINARY, Up, clean_environment, client_environment, read_until

PRELUDE = "import jax, jax.numpy as jnp, numpy as np, json\n"


class Sessions(unittest.TestCase):
    def run_ok(self, up, script):
        done = up.run(PRELUDE + script)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr[-4000:])
        return done.stdout

    def test_devices_as_the_client_sees_them(self):
        with Up((2, 2, 2)) as up:
            out = self.run_ok(up, """
print(json.dumps([[d.id, d.platform, d.slice_index, d.coords, d.core_on_chip, d.num_cores, d.virtual_task_index, d.process_index,
                   sorted(m.kind for m in d.addressable_memories())] for d in jax.devices()]))""")
            rows = json.loads(out.splitlines()[-1])
        self.assertEqual([row[0] for row in rows], list(range(8)))
        self.assertEqual({row[1] for row in rows}, {"cpu"})
        self.assertEqual([row[2] for row in rows], [0] * 4 + [1] * 4)
        self.assertEqual([row[6] for row in rows], [0, 0, 1, 1, 2, 2, 3, 3])
        self.assertEqual(len({tuple(row[3]) + (row[2],) for row in rows}), 8)
        self.assertTrue(all("device" in row[8] and "pinned_host" in row[8] for row in rows))

    def test_several_clients_share_the_cluster(self):
        script = PRELUDE + """
from jax.sharding import Mesh, NamedSharding, PartitionSpec as P
m = Mesh(np.array(jax.devices()), ("x",))
a = jax.device_put(np.arange(64, dtype=np.float32), NamedSharding(m, P("x")))
f = jax.jit(lambda v: v + v.mean())
for _ in range(100): a = f(a) * 0.5
print("done", float(a.sum()))
"""
        with Up((1, 2, 2)) as up:
            clients = [up.popen(script) for _ in range(3)]
            outputs = [client.communicate(timeout=120)[0] for client in clients]
        self.assertEqual([client.returncode for client in clients], [0, 0, 0], outputs)
        # A client that ends may say more, of answers that it didn't wait for.
        self.assertEqual(len({re.search("^done .*$", output, re.M)[0] for output in outputs}), 1)

    def test_leased_slices(self):
        own = PRELUDE + """
import os, signal
from jax.extend import backend
from jax.extend.backend import ifrt_proxy
def client():
    options = ifrt_proxy.ClientConnectionOptions()
    options.initialization_data = {"virtual_slices": b"cpu:1x2"}
    options.connection_timeout_in_seconds = 3
    return ifrt_proxy.get_client(os.environ["JAX_BACKEND_TARGET"], options)
backend.register_backend_factory("proxy", client, priority=1)
print("devices", len(jax.devices()), float(jax.jit(lambda a: a + 1)(1.0)), flush=True)
signal.pause()
"""
        with Up((2, 1, 2)) as up:
            holders = [up.popen(own), up.popen(own)]
            for holder in holders:
                self.addCleanup(holder.stdout.close)
                self.addCleanup(holder.wait)
                self.addCleanup(holder.kill)
            for holder in holders:
                self.assertEqual(read_until(holder, "devices"), "devices 2 2.0")
            refused = subprocess.run([sys.executable, "-c", own], env=up.env, capture_output=True, text=True, timeout=100)
            self.assertNotEqual(refused.returncode, 0)
            self.assertIn("cpu:1x2", refused.stderr)
            self.assertNotIn("CANCELLED", refused.stderr.strip().splitlines()[-1])

    def test_errors_keep_their_first_cause(self):
        with Up((1, 2, 2)) as up:
            self.run_ok(up, """
def fails(a):
    raise ValueError("the first cause")
failed = jax.jit(lambda a: jax.pure_callback(fails, jax.ShapeDtypeStruct((), np.float32), a))(np.float32(1))
later = jax.jit(lambda a: a * 2)(jax.jit(lambda a: a + 1)(failed))
for array in (later, failed):
    try:
        array.block_until_ready()
    except Exception as error:
        assert "the first cause" in str(error), error
    else:
        raise SystemExit("the error is lost")
print(float(jax.jit(lambda a: a + 1)(1.0)))""")

    def test_compiles_before_any_worker_is_in(self):
        manager = subprocess.Popen([str(BINARY), "resource-manager", "--server_port=0", "--instance_count=1", "--instance_type=cpu:1x2"],
                                   env=clean_environment(), stdout=subprocess.PIPE, text=True)
        self.addCleanup(manager.stdout.close)
        self.addCleanup(manager.wait)
        self.addCleanup(manager.kill)
        address = manager.stdout.readline().split()[-1]
        proxy = subprocess.Popen([str(BINARY), "proxy", "--server_port=0", f"--resource_manager_address={address}", "--virtual_slices=cpu:1x2",
                                  "--compile-cache-dir=none"],
                                 env=clean_environment(), stdout=subprocess.PIPE, text=True)
        self.addCleanup(proxy.stdout.close)
        self.addCleanup(proxy.wait)
        self.addCleanup(proxy.terminate)
        target = proxy.stdout.readline().split()[-1]
        client = subprocess.Popen([sys.executable, "-c", PRELUDE + """
f = jax.jit(lambda a: a * 2).lower(jax.ShapeDtypeStruct((4,), jnp.float32)).compile()
print("compiled", flush=True)
print("value", float(f(jnp.ones(4)).sum()), flush=True)
"""], env=client_environment(target), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        self.addCleanup(client.stdout.close)
        self.addCleanup(client.wait)
        self.addCleanup(client.kill)
        read_until(client, "compiled")
        worker = subprocess.Popen([str(BINARY), "worker", f"--resource_manager_address={address}", "--devices=2"],
                                  env=clean_environment(), stdout=subprocess.DEVNULL)
        self.addCleanup(worker.wait)
        self.addCleanup(worker.terminate)
        self.assertEqual(read_until(client, "value"), "value 8.0")


if __name__ == "__main__":
    unittest.main()
