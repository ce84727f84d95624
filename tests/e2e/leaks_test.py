"""What calls leave behind, in the server's tables and in the client: nothing that grows with their number."""

import pathlib
import re
import tempfile
import unittest

from cluster import Up, wait_until

# Puts, launches, reads, programs and errors; everything is let go in the end.
CALLS = """
import gc, sys, jax, jax.numpy as jnp, numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec as P
sharding = NamedSharding(Mesh(np.array(jax.devices()), ("x",)), P("x"))
step = jax.jit(lambda total, batch: total + batch.mean())
last = jnp.ones(3)

def calls(count):
    total = jnp.float32(0)
    for i in range(count):
        total = step(total, jax.device_put(np.full((8, 16), i, np.float32), sharding))
        if i % 4 == 0:
            np.asarray(jax.device_put(np.full(8, i, np.float32), sharding))
            moved = jax.device_put(total, jax.devices()[1])
            moved.delete()
        if i % 10 == 0:
            jax.jit(lambda a: a * (i + 0.5))(total)
            try:
                step(total, np.ones((3, 4, 5)).sum(axis=7))
            except ValueError:
                pass
    total.block_until_ready()

def let_go():
    jax.clear_caches()
    gc.collect()
    (last + 1).block_until_ready()

calls(COUNT)
let_go()
let_go()
# Each stack that the client keeps for the server holds the code objects of its frames.
print("stacks", sys.getrefcount(calls.__code__))
"""

MEMORY = """
import jax
print("bytes", sum(d.memory_stats()["bytes_in_use"] for d in jax.devices()))
"""


class Leaks(unittest.TestCase):
    def test_nothing_grows_with_the_number_of_calls(self):
        with tempfile.TemporaryDirectory() as logs, Up((1, 2, 2), ["--log-dir", logs]) as up:
            log = pathlib.Path(logs, "proxy.log")

            def left(calls):
                """Of a session with so many calls, at its end: {what: how many}."""
                before = len(log.read_text())
                done = up.run(CALLS.replace("COUNT", str(calls)))
                self.assertEqual(done.returncode, 0, done.stderr[-3000:])
                counts = {"stacks": int(re.search(r"^stacks (\d+)", done.stdout, re.M).group(1))}
                door = r"left (\d+) host buffers, (\d+) futures, (\d+) user contexts of (\d+) arrays"
                session = r"it had (\d+) arrays, (\d+) programs"
                wait_until(lambda: all(re.search(p, log.read_text()[before:]) for p in (door, session)),
                           what="the session's end in the log")
                text = log.read_text()[before:]
                names = ("buffers", "futures", "contexts", "owners")
                counts.update(zip(names, map(int, re.search(door, text).groups())))
                counts.update(zip(("arrays", "programs"), map(int, re.search(session, text).groups())))
                return counts

            few, many = left(20), left(220)
            for what in ("buffers", "futures", "owners", "arrays", "programs"):
                self.assertEqual(few[what], many[what], f"{what}: {few}, {many}")
            # The last launches may not have been told as ended yet.
            self.assertLess(many["contexts"], 30, many)
            self.assertLess(many["stacks"], 60, many)
            # Their arrays went with the sessions.
            wait_until(lambda: up.run(MEMORY).stdout.strip() == "bytes 0", what="devices without arrays")


if __name__ == "__main__":
    unittest.main()
