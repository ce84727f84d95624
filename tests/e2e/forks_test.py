"""Processes that a client forks: what they inherit stays the parent's."""

import unittest

from cluster import Up

PARENT = """
import gc, os, signal, sys
import jax, jax.numpy as jnp
jax.debug.print("{}", 1); jax.effects_barrier()
arrays = [jnp.ones(3) + i for i in range(4)]
twice = jax.jit(lambda a: a * 2); twice(arrays[0])
jax.block_until_ready(arrays)

def fork(child):
    pid = os.fork()
    if pid == 0:
        signal.alarm(5)  # it may wait for a lock that another thread had at the fork
        child()
    os.waitpid(pid, 0)

def frees():
    arrays.clear(); jax.clear_caches(); gc.collect(); os._exit(0)

def uses():  # which can't work: the child has none of the client's threads
    float(jnp.ones(3).sum()); os._exit(0)

for child in (frees, sys.exit, uses):
    fork(child)
print([float(twice(a).sum()) for a in arrays])
jax.debug.print("{}", 2); jax.effects_barrier()
"""


class Forks(unittest.TestCase):
    def test_a_child_takes_nothing_from_its_parent(self):
        with Up((1, 1, 2)) as up:
            done = up.run(PARENT, timeout=120)
            self.assertEqual(done.returncode, 0, done.stdout + done.stderr[-3000:])
            self.assertEqual(done.stdout.splitlines(), ["1", "[6.0, 12.0, 18.0, 24.0]", "2"])


if __name__ == "__main__":
    unittest.main()
