"""Processes that die: nobody hangs, nothing stays behind, the others go on."""

import ctypes
import os
import signal
import socket
import stat
import struct
import subprocess
import sys
import unittest

from cluster import BINARY, Up, alive, clean_environment, cluster_flags, descendants, read_until, wait_until

BUSY = """
import jax, jax.numpy as jnp, numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec as P
mesh = Mesh(np.array(jax.devices()), ("x",))
step = jax.jit(lambda a: a @ a.T @ a * 1e-3 + a.sum(0))
a = jax.device_put(np.ones((64, 64), np.float32), NamedSharding(mesh, P("x")))
a = step(a); a.block_until_ready(); print("running", flush=True)
while True:
    for _ in range(20): a = step(a)
    a.block_until_ready()
"""

SUM = """
import jax, numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec as P
mesh = Mesh(np.array(jax.devices()), ("x",))
a = jax.device_put(np.arange(8, dtype=np.float32), NamedSharding(mesh, P("x")))
print("sum", float(jax.jit(lambda v: v.sum())(a)))
"""


# Sums over all devices on and on, each of a fresh array.
SUMS = """
import jax, numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec as P
mesh = Mesh(np.array(jax.devices()), ("x",))
add = jax.jit(lambda v: v.sum())
print("running", flush=True)
while True:
    input()
    try:
        print("sum", float(add(jax.device_put(np.arange(8, dtype=np.float32), NamedSharding(mesh, P("x"))))), flush=True)
    except Exception as e:
        print("lost", str(e).replace("\\n", " "), flush=True)
"""
PIDFD_GETFD = 438  # on every architecture


def break_links(worker, peer):
    """Shuts down each socket that process `worker` shares with process `peer`, and says how many those were."""
    syscall = ctypes.CDLL(None, use_errno=True).syscall
    process = os.pidfd_open(worker)
    broken = 0
    for fd in os.listdir(f"/proc/{worker}/fd"):
        copy = syscall(PIDFD_GETFD, process, int(fd), 0)
        if copy < 0:
            if ctypes.get_errno() == 1:
                raise unittest.SkipTest("the system doesn't let a process take its descendant's sockets")
            continue
        if stat.S_ISSOCK(os.fstat(copy).st_mode):
            with socket.socket(fileno=copy) as link:
                credentials = link.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i"))
                if struct.unpack("3i", credentials)[0] == peer:
                    link.shutdown(socket.SHUT_RDWR)
                    broken += 1
        else:
            os.close(copy)
    os.close(process)
    return broken


def left_in_shared_memory():
    return [name for name in os.listdir("/dev/shm") if "switchtower" in name]


class Failures(unittest.TestCase):
    SHAPE = (2, 2, 2)

    def busy_client(self, up):
        client = up.popen(BUSY)
        self.addCleanup(client.stdout.close)
        self.addCleanup(client.wait)
        self.addCleanup(client.kill)
        read_until(client, "running")
        return client

    def works(self, up):
        done = up.run(SUM)
        self.assertIn("sum 28.0", done.stdout, done.stderr[-3000:])

    def test_killed_client_frees_its_things_and_others_go_on(self):
        with Up(self.SHAPE) as up:
            client = self.busy_client(up)
            client.kill()
            client.wait()
            self.works(up)

    def test_killed_worker_is_data_loss_and_comes_back(self):
        with Up(self.SHAPE) as up:
            client = self.busy_client(up)
            workers = up.children("worker")
            self.assertEqual(len(workers), 4)
            os.kill(workers[0], signal.SIGKILL)
            output, _ = client.communicate(timeout=60)
            self.assertNotEqual(client.returncode, 0)
            self.assertIn("DATA_LOSS", output)
            wait_until(lambda: len(up.children("worker")) == 4, what="the worker's restart")

            def sum_again():
                return "sum 28.0" in up.run(SUM).stdout
            wait_until(sum_again, seconds=60, what="a sum over all devices")

    def test_workers_whose_link_breaks_find_each_other_again(self):
        with Up((1, 2, 4)) as up:
            client = subprocess.Popen([sys.executable, "-c", SUMS], env=up.env, text=True, stdin=subprocess.PIPE,
                                      stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
            self.addCleanup(client.communicate)
            self.addCleanup(client.kill)
            read_until(client, "running")

            def again():
                client.stdin.write("\n")
                client.stdin.flush()
                return client.stdout.readline().strip()
            workers = up.children("worker")
            for _ in range(3):
                self.assertEqual(again(), "sum 28.0")
                self.assertGreater(break_links(*workers), 0)
                answers = [again()]
                while answers[-1] != "sum 28.0":
                    self.assertRegex(answers[-1], "lost .*DATA_LOSS")
                    self.assertLess(len(answers), 1000)
                    answers.append(again())
            self.assertEqual(up.children("worker"), workers)

    def test_lost_worker_harms_only_what_touched_it(self):
        script = """
import jax, numpy as np, sys
arrays = [jax.device_put(np.full(4, i, np.float32), d) for i, d in enumerate(jax.devices())]
jax.block_until_ready(arrays); print("running", flush=True); input()
lost = 0
for i, a in enumerate(arrays):
    try:
        assert (np.asarray(jax.jit(lambda v: v + 1)(a)) == i + 1).all()
    except Exception as e:
        assert "DATA_LOSS" in str(e), e
        lost += 1
print("lost", lost)
"""
        with Up(self.SHAPE) as up:
            client = subprocess.Popen([sys.executable, "-c", script], env=up.env, text=True, stdin=subprocess.PIPE,
                                      stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
            read_until(client, "running")
            killed = up.children("worker")[1]
            os.kill(killed, signal.SIGKILL)
            wait_until(lambda: len(up.children("worker")) == 4 and killed not in up.children("worker"), what="the worker's restart")
            output, _ = client.communicate("\n", timeout=60)
            self.assertIn("lost 2", output)

    def test_killed_compiler_fails_that_compile_alone(self):
        with Up(self.SHAPE, ["--compile-cache-dir=none"]) as up:
            self.works(up)
            for pid in up.children("compiler"):
                os.kill(pid, signal.SIGKILL)
            self.works(up)

    def test_killed_proxy_is_restarted_on_its_port(self):
        with Up(self.SHAPE) as up:
            client = self.busy_client(up)
            old = up.children("proxy")
            os.kill(old[0], signal.SIGKILL)
            client.communicate(timeout=60)
            self.assertNotEqual(client.returncode, 0)
            wait_until(lambda: up.children("proxy") not in ([], old), what="the proxy's restart")
            self.works(up)

    def test_nothing_stays_behind(self):
        for end in (signal.SIGINT, signal.SIGKILL):
            with self.subTest(signal=end):
                up = Up(self.SHAPE)
                with up:
                    self.busy_client(up).kill()
                    everybody = descendants(up.process.pid)
                    self.assertGreaterEqual(len(everybody), 6)
                    up.process.send_signal(end)
                    up.process.wait(timeout=30)
                    wait_until(lambda: not any(map(alive, everybody)), what="the end of all processes")
                self.assertEqual(left_in_shared_memory(), [])

    def test_run_passes_on_the_exit_code_and_leaves_nothing(self):
        done = subprocess.run([str(BINARY), "run", *cluster_flags((1, 2, 1)), "--", "sh", "-c", "exit 7"], env=clean_environment(),
                              capture_output=True, text=True, timeout=120)
        self.assertEqual(done.returncode, 7, done.stderr)


if __name__ == "__main__":
    unittest.main()
