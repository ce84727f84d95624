"""What a running cluster tells of itself: status, top, why and trace."""

import json
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import unittest

from cluster import BINARY, Up, clean_environment, client_environment, read_until, wait_until

PRELUDE = """
import jax, jax.numpy as jnp, numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec as P
mesh = Mesh(np.array(jax.devices()), ("x",))
cut = NamedSharding(mesh, P("x"))
a = jax.device_put(np.ones((8, 8), np.float32), cut)
"""

BUSY = PRELUDE + """
@jax.jit
def train_step(a):
    return a / a.sum()
a = train_step(a); a.block_until_ready(); print("running", flush=True)
while True:
    for _ in range(10): a = train_step(a)
    a.block_until_ready()
"""


def ask(target, *arguments, timeout=60):
    return subprocess.run([str(BINARY), *arguments, "--target", target], env=clean_environment(), capture_output=True, text=True,
                          timeout=timeout)


class Inspect(unittest.TestCase):
    SHAPE = (2, 1, 2)

    def answer(self, target, *arguments):
        done = ask(target, *arguments)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout

    def why(self, up, *what):
        return self.answer(up.address, "why", *what)

    def start(self, popen, script):
        client = popen(script)
        self.addCleanup(client.stdout.close)
        self.addCleanup(client.wait)
        self.addCleanup(client.kill)
        return client

    def until_why(self, up, *words):
        """The first answer with all of the words."""
        last = [""]

        def told():
            last[0] = self.why(up)
            return all(word in last[0] for word in words)
        try:
            wait_until(told, seconds=30, what=f"an answer with {words}")
        except AssertionError as error:
            raise AssertionError(f"{error}; the last was:\n{last[0]}") from None
        return last[0]

    def test_status_top_and_why_of_a_busy_cluster(self):
        with Up(self.SHAPE) as up:
            self.assertIn("no session is open", self.answer(up.address, "status"))
            read_until(self.start(up.popen, BUSY), "running")
            status = json.loads(self.answer(up.address, "status", "--json"))
            self.assertEqual([len(s["hosts_in"]) for s in status["slices"]], [1, 1])
            home = status["homes"][0]
            self.assertEqual([w["state"] for w in home["workers"]], ["UP", "UP"])
            self.assertTrue(all(len(w["activity"]["devices"]) == 2 for w in home["workers"]))
            self.assertEqual(len(home["sessions"][0]["devices"]), 4)
            program = {p["name"]: p for p in home["programs"]}["jit_train_step"]
            self.assertRegex(program["source"], r"<string>:\d+")
            self.assertEqual((program["num_partitions"], program["workers"]), (4, 2))

            text = self.answer(up.address, "status")
            for word in ("slice0", "slice slice1 host 0", f"{int(home['sessions'][0]['id']):016x}", "jit_train_step"):
                self.assertIn(word, text)
            top = self.answer(up.address, "top", "--once", "--interval=0.5")
            self.assertRegex(top, r"[1-9][\d.]* launches/s")
            self.assertRegex(top, r"slice slice1 host 0 device 1 +\d+%")
            session = f"{int(home['sessions'][0]['id']):016x}"
            self.assertIn(session, self.why(up, "session", session))
            self.assertIn("slice slice1 host 0 device 0", self.why(up, "device", "slice1/0/0"))
            self.assertIn("slice slice1 host 0 device 1", self.why(up, "device", "3"))
            self.assertTrue(json.loads(self.answer(up.address, "why", "--json"))["reasons"][0]["what"])

    def test_trace(self):
        with Up(self.SHAPE) as up, tempfile.TemporaryDirectory() as folder:
            read_until(self.start(up.popen, BUSY), "running")
            file = pathlib.Path(folder) / "trace.json"
            self.answer(up.address, "trace", "--seconds=1", "-o", str(file))
            self.check_trace(json.loads(file.read_text()))
            self.assertRegex(self.answer(up.address, "trace", "--seconds=0.1", "-o", str(file)), r"^\d+ events in")  # again

    def check_trace(self, trace):
        tracks, slices, begins, ends = {}, [], {}, {}
        for event in trace["traceEvents"]:
            if event["name"] == "thread_name":
                tracks[event["pid"], event["tid"]] = event["args"]["name"]
            if event["ph"] == "X":
                slices.append(event)
            if event["ph"] in "sf":
                (begins if event["ph"] == "s" else ends)[event["id"]] = event
        names = set(tracks.values())
        self.assertLessEqual({"sequencer", *(f"slice slice{s} host 0 device {d}" for s in (0, 1) for d in (0, 1))}, names)
        self.assertTrue(any(name.startswith("session ") for name in names))
        self.assertEqual(sorted(begins), sorted(ends))
        self.assertGreater(len(begins), 0)
        for flow, begin in begins.items():
            self.assertLessEqual(begin["ts"], ends[flow]["ts"])
        devices = {}
        for event in slices:
            self.assertGreaterEqual(event["ts"], 0)
            self.assertGreaterEqual(event["dur"], 0)
            track = tracks[event["pid"], event["tid"]]
            if " device " in track:
                self.assertEqual(event["name"], "jit_train_step")
                devices.setdefault(track, []).append(event)
        self.assertEqual(len(devices), 4)
        for events in devices.values():  # a device has one launch at a time
            for one, other in zip(events, events[1:]):
                self.assertGreaterEqual(other["ts"] + 0.001, one["ts"] + one["dur"])
        chains = {(tracks[b["pid"], b["tid"]].split()[0], tracks[ends[f]["pid"], ends[f]["tid"]].split()[0]) for f, b in begins.items()}
        self.assertEqual(chains, {("session", "sequencer"), ("sequencer", "slice")})

    def test_a_stuck_collective_is_named(self):
        with Up(self.SHAPE, ["--fault-point=collective.join:rank=3,after=3"]) as up:
            client = self.start(up.popen, PRELUDE + """
@jax.jit
def total(a):
    return a.sum()
for i in range(3): total(a).block_until_ready()
print("stuck", flush=True)
total(a).block_until_ready()
""")
            read_until(client, "stuck")
            text = self.until_why(up, "rank 3 is not")
            for word in ("jit_total (<string>:", "all-reduce", "ranks 0-2 are in",
                         "called at <string>:13",
                         "rank 3 (slice slice1 host 0 device 1) has run the launch for", "collective.join:rank=3,after=3"):
                self.assertIn(word, text)
            self.assertIn("hasn't come to this operation", self.why(up, "device", "slice1/0/1"))

    def test_a_stopped_worker_is_named(self):
        with Up(self.SHAPE) as up:
            read_until(self.start(up.popen, BUSY), "running")
            worker = up.children("worker")[0]
            os.kill(worker, signal.SIGSTOP)
            self.addCleanup(lambda: os.path.exists(f"/proc/{worker}") and os.kill(worker, signal.SIGCONT))
            text = self.until_why(up, "doesn't answer")
            self.assertRegex(text, r"jit_train_step .* hasn't ended on")
            self.assertIn("silent", self.answer(up.address, "status"))
            os.kill(worker, signal.SIGCONT)
            wait_until(lambda: "doesn't answer" not in self.why(up), what="an answer without complaint")

    def test_an_array_that_waits_for_a_worker(self):
        def role(*arguments):
            process = subprocess.Popen([str(BINARY), *arguments], env=clean_environment(), stdout=subprocess.PIPE, text=True)
            self.addCleanup(process.stdout.close)
            self.addCleanup(process.wait)
            self.addCleanup(process.terminate)
            return process.stdout.readline().split()[-1]
        manager = role("resource-manager", "--server_port=0", "--instance_count=2", "--instance_type=cpu:1x1")
        target = role("proxy", "--server_port=0", f"--resource_manager_address={manager}")
        role("worker", f"--resource_manager_address={manager}", "--devices=1", "--slice=slice0", "--host-index=0")
        script = PRELUDE + 'print("waiting", flush=True); (a + 1).block_until_ready()'
        client = self.start(lambda s: subprocess.Popen([sys.executable, "-c", s], env=client_environment(target), text=True,
                                                       stdout=subprocess.PIPE, stderr=subprocess.STDOUT), script)
        read_until(client, "waiting")
        wait_until(lambda: "slice slice1 host 0, where no worker has come in yet" in self.answer(target, "why"), what="the seat's name")
        self.assertIn("not in yet", self.answer(target, "status"))

    def test_errors_say_what_to_do(self):
        for arguments, word in ((("status", "--target=nowhere"), "grpc://HOST:PORT"), (("status",), "JAX_BACKEND_TARGET"),
                                (("why", "--target=grpc://127.0.0.1:1"), "no proxy answers at 127.0.0.1:1")):
            done = subprocess.run([str(BINARY), *arguments], env=clean_environment(), capture_output=True, text=True, timeout=60)
            self.assertEqual(done.returncode, 1)
            self.assertIn(word, done.stderr)
        with Up((1, 1, 1)) as up:
            done = ask(up.address, "why", "colour", "red")
            self.assertEqual(done.returncode, 1)
            self.assertIn("session ID", done.stderr)
            done = ask(up.address, "trace", "--seconds=0.1", "-o", "/nowhere/trace.json")
            self.assertEqual(done.returncode, 1)
            self.assertIn("/nowhere/trace.json", done.stderr)


if __name__ == "__main__":
    unittest.main()
