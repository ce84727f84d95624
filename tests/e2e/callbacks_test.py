"""Functions of the client that programs call: what they are given, give and print is what plain CPU JAX gives."""

import json
import re
import unittest

from cluster import ROOT, Up, plain_cpu, read_until, run_on_cluster

CASES = ROOT / "tests" / "e2e" / "callback_cases.py"
SHAPES = [(1, 1, 8), (1, 4, 2), (2, 2, 2)]

PRELUDE = """
import jax, jax.numpy as jnp, numpy as np, json, sys, threading, time
from jax.sharding import Mesh, NamedSharding, PartitionSpec as P
from jax.experimental import io_callback
"""


class Callbacks(unittest.TestCase):
    maxDiff = None

    def test_like_plain_cpu(self):
        expected = json.loads(plain_cpu([CASES]).splitlines()[-1])
        for shape in SHAPES:
            got = json.loads(run_on_cluster(shape, [CASES]).splitlines()[-1])
            for name in expected:
                with self.subTest(shape=shape, case=name):
                    self.assertEqual(got[name], expected[name])

    def run_ok(self, up, script):
        done = up.run(PRELUDE + script)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr[-4000:])
        return done.stdout

    def test_a_callback_that_raises_fails_its_launch_with_the_python_text(self):
        with Up((1, 2, 2)) as up:
            out = self.run_ok(up, """
def bad(x):
  raise ValueError("no good: " + str(float(x)))
f = jax.jit(lambda x: jax.pure_callback(bad, x, x) + 1)
for _ in range(2):
  try:
    f(jnp.float32(3)).block_until_ready()
  except jax.errors.JaxRuntimeError as e:
    print("ERROR", str(e).replace("\\n", " "))
print("after", float(jax.jit(lambda x: x * 2)(jnp.float32(4))))
""")
        errors = [line for line in out.splitlines() if line.startswith("ERROR")]
        self.assertEqual(len(errors), 2, out)
        for error in errors:
            self.assertIn("CpuCallback error calling callback: Traceback", error)
            self.assertIn("ValueError: no good: 3.0", error)
            self.assertNotIn("switchtower", error)
            self.assertNotIn("INTERNAL", error)
        self.assertIn("after 8.0", out)

    def test_a_buffer_callback_that_returns_a_value_or_wants_a_gpu_fails_its_launch(self):
        with Up((1, 1, 2)) as up:
            out = self.run_ok(up, """
from jax.experimental.buffer_callback import buffer_callback
x = jnp.arange(3.)
for function in (lambda ctx, out, v: 3, lambda ctx, out, v: ctx.stream):
  try:
    buffer_callback(function, jax.ShapeDtypeStruct(x.shape, x.dtype))(x).block_until_ready()
  except jax.errors.JaxRuntimeError as e:
    print("ERROR", str(e).replace("\\n", " "))
""")
        self.assertRegex(out, r"ERROR .*must not return any values")
        self.assertRegex(out, r"ERROR .*GPU context is not available: the function runs in the client's process")

    def test_an_agent_whose_connection_breaks_attaches_again(self):
        with Up((1, 2, 2)) as up:
            out = self.run_ok(up, """
import socket
from switchtower import jax_patches
f = jax.jit(lambda x: jax.pure_callback(lambda v: v + 1, x, x))
print(float(f(jnp.float32(1))))
for _ in range(3):
  agent = jax_patches._agents[jax.devices()[0].client]
  agent._socket.shutdown(socket.SHUT_RDWR)
  while jax_patches._agents[jax.devices()[0].client] is agent: time.sleep(0.01)
  print(float(f(jnp.float32(2))))
""")
        self.assertEqual(out.split(), ["2.0", "3.0", "3.0", "3.0"])

    def test_a_callback_that_never_returns_holds_up_nobody_else(self):
        with Up((1, 2, 2)) as up:
            stuck = up.popen(PRELUDE + """
def forever(x):
  print("inside", flush=True)
  threading.Event().wait()
jax.jit(lambda x: jax.pure_callback(forever, x, x))(jnp.float32(1)).block_until_ready()
""")
            read_until(stuck, "inside")
            self.run_ok(up, "assert float(jnp.arange(8.).sum()) == 28")  # another session, the same device
            stuck.kill()
            stuck.communicate()
            # The launch ended with its session, so its device takes launches as before.
            for _ in range(3):
                self.run_ok(up, """
m = Mesh(np.array(jax.devices()), ("x",))
a = jax.device_put(np.arange(8.), NamedSharding(m, P("x")))
assert float(jax.jit(lambda v: v.sum())(a)) == 28
""")

    def test_a_callback_that_runs_jax_itself(self):
        with Up((1, 1, 2)) as up:
            out = self.run_ok(up, """
def inner(x):
  return np.asarray(jnp.sin(x) + jax.jit(lambda v: v * 2)(x))
x = jnp.arange(4.)
np.testing.assert_allclose(jax.jit(lambda x: jax.pure_callback(inner, x, x))(x), np.sin(np.arange(4.)) + 2 * np.arange(4.), rtol=1e-6)
# On a device of the cluster, while the program that called waits on another one.
other = jax.devices()[1]
def remote(x):
  return np.asarray(jax.jit(lambda v: v + 1)(jax.device_put(np.asarray(x), other)))
print(jax.jit(lambda x: jax.pure_callback(remote, x, x))(x).tolist())
""")
        self.assertIn("[1.0, 2.0, 3.0, 4.0]", out)

    def test_functions_go_with_their_programs(self):
        with Up((1, 1, 2)) as up:
            self.run_ok(up, """
import gc
from switchtower.jax_patches import _registry
def once(i):
  jax.jit(lambda x: jax.pure_callback(lambda v: v + i, x, x))(jnp.float32(i)).block_until_ready()
for i in range(50): once(i)
jax.clear_caches(); gc.collect()
for _ in range(100):
  if len(_registry) <= 1: break
  time.sleep(0.1)
assert len(_registry) <= 1, len(_registry)
# One that is dropped while it is still on its way.
for i in range(20):
  jax.jit(lambda x: jax.debug.callback(lambda v: time.sleep(0.01), x))(jnp.float32(i))
  jax.clear_caches(); gc.collect()
jax.effects_barrier()
""")

    def test_many_calls_and_large_operands(self):
        with Up((1, 2, 2)) as up:
            self.run_ok(up, """
seen = []
@jax.jit
def loop(x):
  def body(i, x):
    io_callback(lambda v: seen.append(int(v)), None, i, ordered=True)
    return x + 1
  return jax.lax.fori_loop(0, 500, body, x)
assert float(loop(jnp.float32(0))) == 500
jax.effects_barrier()
assert seen == list(range(500)), seen[:10]
big = jnp.arange(1 << 23, dtype=jnp.float32)
assert float(jax.jit(lambda x: jax.pure_callback(lambda v: np.asarray(v)[::-1], x, x))(big)[0]) == (1 << 23) - 1
""")

    def test_only_with_the_right_token(self):
        with Up((1, 1, 2)) as up:
            out = self.run_ok(up, """
from switchtower.agent import Agent
from switchtower.registry import Registry
from switchtower.agent import address_of
host, port = address_of(jax.config.read("jax_backend_target"))
token = jax.devices()[0].switchtower_agent
for wrong in ("", token[:-1] + ("0" if token[-1] != "0" else "1"), token.replace(":", ";")):
  try:
    Agent(host, port, wrong, Registry())
    print("IN")
  except RuntimeError as e:
    print("REFUSED", e)
first = Agent(host, port, token, Registry())
try:
  Agent(host, port, token, Registry())
  print("IN")
except RuntimeError as e:
  print("REFUSED", e)
""")
        self.assertEqual(out.count("REFUSED"), 4, out)
        self.assertEqual(out.count("IN\n"), 0, out)
        self.assertIn("no session here has this token", out)
        self.assertIn("has an agent already", out)

    def test_memory_stats(self):
        with Up((1, 2, 2), ["--device-memory=268435456"]) as up:
            out = self.run_ok(up, """
before = [d.memory_stats()["bytes_in_use"] for d in jax.devices()]
x = jax.device_put(np.zeros(1 << 20, np.float32), jax.devices()[2]).block_until_ready()
after = [d.memory_stats()["bytes_in_use"] for d in jax.devices()]
print(json.dumps([a - b for a, b in zip(after, before)]), jax.devices()[0].memory_stats()["bytes_limit"])
del x
for _ in range(100):  # the worker is told of it with what comes next
  stats = jax.devices()[2].memory_stats()
  if stats["bytes_in_use"] == before[2]: break
  time.sleep(0.1)
assert stats["bytes_in_use"] == before[2] and stats["peak_bytes_in_use"] >= 1 << 22, stats
""")
        self.assertIn("[0, 0, 4194304, 0] 268435456", re.sub(r"\s+$", "", out))


if __name__ == "__main__":
    unittest.main()
