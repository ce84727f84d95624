"""Clients that mean harm, or are unlucky, beside one that computes: it goes on with the right numbers, and what they took comes back."""

import contextlib
import os
import pathlib
import random
import socket
import struct
import subprocess
import sys
import time
import unittest

from cluster import Up, read_until, wait_until

# Computes on and on, on devices FIRST and later. Asked by a line, it ends the round it's in, begins another one and says how all went.
NEIGHBOUR = """
import sys, threading, time, jax, numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec as P
devices = np.array(jax.devices()[FIRST:])
begin = np.arange(8 * len(devices), dtype=np.float32)
sharded = NamedSharding(Mesh(devices, ("x",)), P("x"))
step = jax.jit(lambda a: a * 0.5 + a.sum())
want = begin
for _ in range(5): want = want * np.float32(0.5) + want.sum()
asked = threading.Semaphore(0)
threading.Thread(target=lambda: [asked.release() for _ in sys.stdin], daemon=True).start()
def round():
    a = jax.device_put(begin, sharded)
    for _ in range(5): a = step(a)
    np.testing.assert_allclose(np.asarray(a), want, rtol=1e-5)
round(); print("computing", flush=True)
rounds = 0
while True:
    wanted = asked.acquire(blocking=False)
    round(); rounds += 1; time.sleep(0.01)
    if wanted: print("right", rounds, flush=True)
"""

PRELUDE = """
import jax, jax.numpy as jnp, numpy as np
from jax import lax
from jax.sharding import Mesh, NamedSharding, PartitionSpec as P
mesh = Mesh(np.array(jax.devices()), ("x",))
def put(n): return jax.device_put(np.ones(n, np.float32), NamedSharding(mesh, P("x")))
"""

# What is killed, once it has said "now".
VICTIMS = {
    "uploads": """
print("now", flush=True)
while True: put(1 << 24)
""",
    "a chain of launches": """
step = jax.jit(lambda a: a * 0.5 + a.sum())
a = step(put(64)); a.block_until_ready(); print("now", flush=True)
while True: a = step(a)
""",
    "5,000 launches that nobody waits for": """
step = jax.jit(lambda a: a + 1)
a = jnp.zeros(()); kept = [step(a)]; kept[0].block_until_ready()
for _ in range(5000): kept.append(step(a))
print("now", flush=True); import time; time.sleep(1000)
""",
    "an endless program with a collective": """
def forever(a): return lax.while_loop(lambda v: (v == v).all(), lambda v: lax.psum(v, "x") * 0, a)
endless = jax.jit(jax.shard_map(forever, mesh=mesh, in_specs=P("x"), out_specs=P("x"), check_vma=False))
a = put(64); a.block_until_ready(); b = endless(a)
kept = [jax.jit(lambda v: v + 1)(b)]; print("now", flush=True); import time; time.sleep(1000)
""",
}

ENDLESS = PRELUDE + """
endless = jax.jit(lambda a: lax.while_loop(lambda v: v < 1e9, lambda v: jnp.sin(v), a))
a = jax.device_put(np.float32(1), jax.devices()[0]); a.block_until_ready()
b = endless(a); print("now", flush=True); import time; time.sleep(1000)
"""

BEHIND = """
import jax, numpy as np
step = jax.jit(lambda a: a + 1)
a = step(jax.device_put(np.float32(1), jax.devices()[0])); a.block_until_ready(); print("computing", flush=True)
input()
print("queued", flush=True)
try:
    for _ in range(100): a = step(a)
    print("got", float(a), flush=True)
except Exception as error:
    print("got", str(error).splitlines()[0], flush=True)
"""

# XLA folds the constant for hours.
SLOW_TO_COMPILE = PRELUDE + """
import threading
folded = np.arange(1 << 20, dtype=np.float32)
def compile(width):
    window = lambda a: a + lax.reduce_window(jnp.asarray(folded) * 1.5, 0.0, lax.add, (width,), (1,), "SAME")[0]
    jax.jit(window).lower(np.float32(1)).compile()
for i in range(6): threading.Thread(target=compile, args=((1 << 18) + i,), daemon=True).start()
print("now", flush=True); import time; time.sleep(1000)
"""

SUM = PRELUDE + """print("sum", float(jax.jit(lambda v: v.sum())(put(8))))"""

HTTP2 = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"


def frame(body_bytes, body=b"", tagged_type=1):
    return struct.pack("<4sIQ", b"SWF1", tagged_type, body_bytes) + body


class Hostile(unittest.TestCase):
    SHAPE = (1, 2, 2)

    def talker(self, up, script, first_line):
        process = subprocess.Popen([sys.executable, "-c", script], env=up.env, text=True, stdin=subprocess.PIPE,
                                   stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        self.addCleanup(process.stdin.close)
        self.addCleanup(process.stdout.close)
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        read_until(process, first_line)
        return process

    def neighbour(self, up, first_device=0):
        return self.talker(up, f"FIRST = {first_device}\n" + NEIGHBOUR, "computing")

    def victim(self, up, script):
        process = up.popen(script)
        self.addCleanup(process.stdout.close)
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        read_until(process, "now")
        return process

    def say(self, process, line=""):
        process.stdin.write(line + "\n")
        process.stdin.flush()

    def assert_right(self, neighbour):
        self.say(neighbour)
        self.assertRegex(read_until(neighbour, "right"), r"right \d+")

    def processes(self, up):
        return {role: sorted(up.children(role)) for role in ("resource-manager", "proxy", "worker")}

    def call(self, up):
        host, port = up.address.rsplit("/", 1)[-1].rsplit(":", 1)
        caller = socket.create_connection((host, int(port)))
        self.addCleanup(caller.close)
        return caller

    def test_bytes_of_no_protocol(self):
        chance = random.Random(1)
        speeches = [chance.randbytes(n) for n in (1, 9, 100, 100_000)]
        speeches += [HTTP2 + chance.randbytes(n) for n in (0, 9, 100, 100_000)]
        # A frame of settings, then headers, data and a window of a stream that was never opened.
        speeches += [HTTP2 + b"\0\0\0\4\0\0\0\0\0" + struct.pack(">I", 40)[1:] + bytes([kind, 0xff]) + struct.pack(">I", 7) + chance.randbytes(40)
                     for kind in range(11)]
        speeches += [b"S", b"SWF", b"SWF9" + chance.randbytes(100), frame(1 << 63), frame((1 << 64) - 1), frame(4097), frame(1 << 31),
                     frame(0), frame(4, b"\xff\xfe{["), frame(100, chance.randbytes(100)), frame(100, b"{"), frame(10, b"[" * 10, 0xff000001)]
        speeches += [frame(4000, b"[" * 4000, kind) for kind in range(8)]
        with Up(self.SHAPE) as up:
            neighbour = self.neighbour(up)
            before = self.processes(up)
            for speech in speeches:
                for hang_up in (False, True):
                    caller = self.call(up)
                    try:
                        caller.sendall(speech)
                    except OSError:
                        pass  # it was hung up on
                    if hang_up:
                        caller.close()
            self.assert_right(neighbour)
            self.assertEqual(self.processes(up), before)

    def test_connections_that_say_nothing(self):
        with Up(self.SHAPE) as up:
            neighbour = self.neighbour(up)
            before = self.processes(up)
            callers = [self.call(up) for _ in range(200)]
            for caller, begin in zip(callers, [b"", b"S", HTTP2, frame(100)] * 50):
                caller.sendall(begin)
            self.assert_right(neighbour)
            self.assertIn("sum 8.0", up.run(SUM).stdout)
            self.assertEqual(self.processes(up), before)

    def test_clients_that_are_killed(self):
        with Up(self.SHAPE) as up:
            neighbour = self.neighbour(up)
            before = self.processes(up)
            for what, script in VICTIMS.items():
                with self.subTest(killed_in=what):
                    victim = self.victim(up, PRELUDE + script)
                    victim.kill()
                    victim.wait()
                    self.assert_right(neighbour)
                    self.assertEqual(self.processes(up), before)
            self.assertIn("sum 8.0", up.run(SUM).stdout)

    def test_an_endless_program_costs_its_worker_when_its_session_ends(self):
        with Up(self.SHAPE, ["--cancel-grace=1"]) as up:
            elsewhere = self.neighbour(up, first_device=2)
            behind = self.talker(up, BEHIND, "computing")
            workers = set(up.children("worker"))
            victim = self.victim(up, ENDLESS)
            self.say(behind)
            read_until(behind, "queued")
            self.assert_right(elsewhere)
            self.assertEqual(set(up.children("worker")), workers)  # its session may wait for it as long as it likes
            victim.kill()
            victim.wait()
            self.assertIn("DATA_LOSS", read_until(behind, "got"))
            self.assert_right(elsewhere)
            wait_until(lambda: len(up.children("worker")) == 2, what="the worker's restart")
            self.assertEqual(len(workers & set(up.children("worker"))), 1)
            wait_until(lambda: "sum 8.0" in up.run(SUM).stdout, seconds=60, what="a sum over all devices")

    def test_programs_that_compile_for_ever_hold_up_their_session_alone(self):
        def busy(up):
            """Compilers that have computed for a second and still do."""
            ticks = {}
            for _ in range(2):
                time.sleep(0.5)
                for pid in up.children("compiler"):
                    try:
                        stat = pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
                    except OSError:
                        continue
                    ticks.setdefault(pid, []).append(int(stat[11]) + int(stat[12]))
            return [pid for pid, (first, *later) in ticks.items() if first > 100 and later and later[0] > first]

        with Up(self.SHAPE, ["--compile-cache-dir=none"]) as up:
            neighbour = self.neighbour(up)
            victim = self.victim(up, SLOW_TO_COMPILE)
            compilers = max(2, os.cpu_count())
            wait_until(lambda: len(busy(up)) >= min(compilers, 6), seconds=120, what="compilers at work")
            self.assertIn("sum 8.0", up.run(SUM).stdout)
            self.assert_right(neighbour)
            victim.kill()
            victim.wait()
            wait_until(lambda: not busy(up), seconds=60, what="the compilers' rest")
            self.assertIn("sum 8.0", up.run(SUM).stdout)

    def test_sessions_one_after_the_other_leave_nothing(self):
        # Imported once; each process begins its own session.
        one = """
import os, sys, jax, jax.numpy
for _ in range(SESSIONS):
    if os.fork() == 0:
        exec(SCRIPT); sys.stdout.flush(); os._exit(0)
    assert os.wait()[1] == 0
"""

        def descriptors(up):
            return {pid: len(os.listdir(f"/proc/{pid}/fd")) for pids in self.processes(up).values() for pid in pids}

        def megabytes(up):
            return {pid: int(open(f"/proc/{pid}/statm").read().split()[1]) >> 8 for pids in self.processes(up).values() for pid in pids}

        def sessions(up, count):
            done = up.run(f"SESSIONS = {count}\nSCRIPT = {SUM + '; a = put(1 << 22); a.block_until_ready()'!r}\n" + one)
            self.assertEqual(done.stdout.count("sum 8.0"), count, done.stderr[-3000:])

        with Up(self.SHAPE) as up:
            sessions(up, 3)  # thread pools and caches are there now
            before, memory = descriptors(up), megabytes(up)
            with contextlib.ExitStack() as here:
                neighbour = self.neighbour(up)
                here.callback(neighbour.wait)
                here.callback(neighbour.kill)
                sessions(up, 30)
                self.assert_right(neighbour)
            wait_until(lambda: descriptors(up) == before, what="the same descriptors as before")
            after = megabytes(up)
            # A leaked session would be 16 MiB in the workers.
            self.assertEqual({pid: after[pid] - memory[pid] for pid in after if after[pid] - memory[pid] > 40}, {})


if __name__ == "__main__":
    unittest.main()
