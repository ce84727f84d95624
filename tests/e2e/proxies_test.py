"""Several proxies on one cluster: slices of their own, slices that they share, and homes that die or stand still."""

import contextlib
import pathlib
import re
import signal
import subprocess
import sys
import tempfile
import time
import unittest

from cluster import BINARY, clean_environment, client_environment, read_until, wait_until

PRELUDE = """
import jax, jax.numpy as jnp, numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec as P
devices = jax.devices()
rows = NamedSharding(Mesh(np.array(devices), ("x",)), P("x"))
"""

# Large buffers both ways and collectives over all devices; the numbers are exact in float32.
COMPUTE = PRELUDE + """
host = np.arange(len(devices) << 21, dtype=np.float32) % 1024
x = jax.device_put(host, rows)
step = jax.jit(lambda v: (v + v.max()) % 1024)
expected = host
for _ in range(50):
    x = step(x)
    expected = (expected + expected.max()) % 1024
np.testing.assert_array_equal(np.asarray(x), expected)
print("computed", len(devices), flush=True)
"""

FOR_EVER = PRELUDE + """
step = jax.jit(lambda v: v + v.sum() * 0)
x = step(jax.device_put(np.ones(len(devices), np.float32), rows))
x.block_until_ready()
print("steps", flush=True)
while True:
    x = step(x)
    x.block_until_ready()
"""

CALLBACKS = PRELUDE + """
seen = []
def twice(v):
    seen.append(v.nbytes)
    return 2 * v
shape = jax.ShapeDtypeStruct((1 << 20,), np.float32)
x = jnp.arange(1 << 20, dtype=jnp.float32)
y = jax.jit(lambda v: jax.pure_callback(twice, shape, v) + 1)(x)
np.testing.assert_array_equal(np.asarray(y), 2 * np.arange(1 << 20, dtype=np.float32) + 1)
jax.jit(lambda v: jax.debug.callback(lambda s: print("called", float(s), flush=True), v.sum()))(jnp.ones(4))
jax.effects_barrier()
print("callbacks", len(seen), flush=True)
"""


class Proxy:
    def __init__(self, process, address, log):
        self.process, self.address, self.log = process, address, log
        self.door = address.removeprefix("grpc://")
        self.env = client_environment(address)


class Cluster:
    """A resource manager and its workers; proxies are started one by one."""

    def __init__(self, slices, hosts, devices, manager_flags=()):
        self.stack = contextlib.ExitStack()
        self.folder = pathlib.Path(self.stack.enter_context(tempfile.TemporaryDirectory()))
        self.proxies = 0
        self.manager_process, self.manager = self.start(
            "resource-manager", "manager", "--server_port=0", f"--instance_count={slices}",
            f"--instance_type=any:{hosts}x{devices}", *manager_flags)
        workers = [self.spawn("worker", f"worker{i}", f"--devices={devices}", self.at_manager())
                   for i in range(slices * hosts)]
        for worker in workers:
            read_until(worker, "switchtower worker ready: ")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.stack.close()

    def at_manager(self):
        return f"--resource_manager_address={self.manager}"

    def spawn(self, role, name, *flags):
        process = subprocess.Popen([str(BINARY), role, *flags, "--log-level=info", f"--log-file={self.folder / name}.log"],
                                   env=clean_environment(), text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        self.stack.callback(end, process)
        return process

    def start(self, role, name, *flags):
        process = self.spawn(role, name, *flags)
        return process, read_until(process, f"switchtower {role} ready: ").split()[-1]

    def proxy(self, *flags):
        self.proxies += 1
        name = f"proxy{self.proxies}"
        process, address = self.start("proxy", name, "--server_port=0", self.at_manager(), *flags)
        return Proxy(process, address, self.folder / f"{name}.log")

    def client(self, proxy, script):
        process = subprocess.Popen([sys.executable, "-c", script], env=proxy.env, text=True, stdout=subprocess.PIPE,
                                   stderr=subprocess.STDOUT)
        self.stack.callback(end, process)
        return process

    def ask(self, proxy, command):
        done = subprocess.run([str(BINARY), command, f"--target={proxy.address}"], env=clean_environment(), text=True,
                              capture_output=True, timeout=60)
        return done.stdout + done.stderr

    def log(self, name):
        return (self.folder / f"{name}.log").read_text()

    def leases_granted(self):
        return len(re.findall(r"lease \w+ granted to", self.log("manager")))

    def epochs_seen(self, worker=0):
        """Of the controllers that commanded a worker, in their order."""
        return [int(epoch) for epoch in re.findall(r"of epoch (\d+) commands this worker now", self.log(f"worker{worker}"))]


def end(process):
    if process.poll() is None:
        process.send_signal(signal.SIGCONT)
        process.kill()
    process.wait()
    process.stdout.close()


class Proxies(unittest.TestCase):
    def finish(self, client, timeout=300):
        output, _ = client.communicate(timeout=timeout)
        self.assertEqual(client.returncode, 0, output[-4000:])
        return output

    def fails(self, client, timeout=300):
        output, _ = client.communicate(timeout=timeout)
        self.assertNotEqual(client.returncode, 0)
        # The proxy is gone or its workers are, whichever the client hears of first.
        self.assertRegex(output, "UNAVAILABLE|DATA_LOSS")
        return output

    def test_slices_of_their_own(self):
        with Cluster(2, 1, 2) as cluster:
            proxies = [cluster.proxy("--virtual_slices=cpu:1x2") for _ in range(2)]
            clients = [cluster.client(proxy, COMPUTE) for proxy in proxies]
            for client in clients:
                self.assertIn("computed 2\n", self.finish(client))
            self.assertEqual(cluster.leases_granted(), 2)
            for proxy in proxies:
                self.assertNotIn("relayed", proxy.log.read_text())
            # Who has no slice of its own left to get is told.
            holders = [cluster.client(proxy, FOR_EVER) for proxy in proxies]
            for holder in holders:
                read_until(holder, "steps")
            third = cluster.proxy("--virtual_slices=cpu:1x2")
            cluster.client(third, COMPUTE)  # tries again and again, in silence
            wait_until(lambda: "slices of type cpu:1x2 were asked for" in third.log.read_text(), what="the refusal")

    def test_shared_slices_have_one_home(self):
        with Cluster(1, 2, 2) as cluster:
            home, other = cluster.proxy(), cluster.proxy()
            holder = cluster.client(home, FOR_EVER)
            read_until(holder, "steps")
            guest = cluster.client(other, FOR_EVER)
            read_until(guest, "steps")
            self.assertRegex(cluster.ask(home, "status"), r"slice0 .* this proxy, shared\n")
            self.assertRegex(cluster.ask(home, "status"), r"ipv4:\S+ by way of the proxy ")
            self.assertRegex(cluster.ask(other, "status"), rf"slice0 .* {home.door}, shared\n")
            self.assertRegex(cluster.ask(other, "status"), rf"RELAYED SESSION .*\n[0-9a-f]{{16}} .* grpc://{home.door}\n")
            self.assertRegex(cluster.ask(other, "why"), rf"session [0-9a-f]{{16}} .* is at the proxy at {home.door}")
            end(guest)
            clients = [cluster.client(proxy, script) for proxy in (home, other) for script in (COMPUTE, CALLBACKS)]
            for client in clients:
                output = self.finish(client)
                self.assertTrue("computed 4\n" in output or ("callbacks 1\n" in output and "called 4.0\n" in output), output)
            self.assertEqual(cluster.leases_granted(), 1)
            self.assertEqual(len(cluster.epochs_seen()), 1)
            self.assertIn("is relayed to the proxy at", other.log.read_text())
            self.assertNotIn("is relayed", home.log.read_text())
            # The clients' ends reached the home; the holder's is left.
            wait_until(lambda: len(re.findall(r"session \d+ ends", home.log.read_text())) == 5, what="the ends of five sessions")
            self.assertIsNone(holder.poll())

    def test_a_home_that_dies_is_replaced(self):
        with Cluster(1, 2, 2) as cluster:
            home, other = cluster.proxy(), cluster.proxy()
            near = cluster.client(home, FOR_EVER)
            read_until(near, "steps")
            far = cluster.client(other, FOR_EVER)
            read_until(far, "steps")
            home.process.kill()
            self.fails(near)
            self.assertIn("home of the shared slices, ended this session", self.fails(far))
            self.assertIn("computed 4\n", self.finish(cluster.client(other, COMPUTE)))
            first, second = cluster.epochs_seen()
            self.assertGreater(second, first)
            # Whoever comes third is relayed to the new home.
            holder = cluster.client(other, FOR_EVER)
            read_until(holder, "steps")
            third = cluster.proxy()
            self.assertIn("computed 4\n", self.finish(cluster.client(third, COMPUTE)))
            self.assertIn(f"is relayed to the proxy at {other.door}", third.log.read_text())

    def test_a_home_that_stands_still_does_no_harm_when_it_goes_on(self):
        with Cluster(1, 2, 2, ["--heartbeat-timeout-ms=2000"]) as cluster:
            home, other = cluster.proxy(), cluster.proxy()
            near = cluster.client(home, FOR_EVER)
            read_until(near, "steps")
            far = cluster.client(other, FOR_EVER)
            read_until(far, "steps")
            home.process.send_signal(signal.SIGSTOP)
            wait_until(lambda: " released by " in cluster.log("manager"), what="the end of the lease")
            # The client whose session was there is told, though no connection has broken.
            self.assertIn("home of the shared slices, ended this session", self.fails(far))
            holder = cluster.client(other, FOR_EVER)
            read_until(holder, "steps")
            home.process.send_signal(signal.SIGCONT)
            self.fails(near)
            # It finds out, and serves on: as a way to the new home.
            wait_until(lambda: "is there again" in home.log.read_text(), what="the old home's return")
            self.assertIn("this session has lost its slices", home.log.read_text())
            self.assertIn("computed 4\n", self.finish(cluster.client(home, COMPUTE)))
            self.assertIn(f"is relayed to the proxy at {other.door}", home.log.read_text())
            self.assertIsNone(holder.poll())
            for worker in range(2):
                first, second = cluster.epochs_seen(worker)
                self.assertGreater(second, first)
            # The new home ends in order; the slices fall to whoever asks next.
            other.process.terminate()
            self.fails(holder)
            self.assertIn("computed 4\n", self.finish(cluster.client(home, COMPUTE)))
            self.assertEqual(len(cluster.epochs_seen()), 3)

    def test_a_manager_that_stands_still_takes_nobody_for_dead_when_it_goes_on(self):
        with Cluster(1, 2, 1, ["--heartbeat-timeout-ms=3000"]) as cluster:
            proxy = cluster.proxy()
            client = cluster.client(proxy, FOR_EVER)
            read_until(client, "steps")
            cluster.manager_process.send_signal(signal.SIGSTOP)
            time.sleep(6)
            cluster.manager_process.send_signal(signal.SIGCONT)
            wait_until(lambda: "stood still" in cluster.log("manager"), what="the manager's word")
            time.sleep(4)
            self.assertIsNone(client.poll())
            self.assertNotIn("was silent for over", cluster.log("manager"))
            self.assertIn("computed 2\n", self.finish(cluster.client(proxy, COMPUTE)))


if __name__ == "__main__":
    unittest.main()
