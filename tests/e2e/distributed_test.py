"""Scripts that call jax.distributed.initialize() although one process drives the whole cluster."""

import pathlib
import socket
import tempfile
import unittest

from cluster import run_on_cluster

SCRIPT = """
import jax, jax.numpy as jnp
jax.distributed.initialize("127.0.0.1:{port}", num_processes=1, process_id=0)
assert (jax.process_count(), jax.process_index(), len(jax.devices()), len(jax.local_devices())) == (1, 0, 4, 4)
assert jax.devices() == jax.devices("proxy") and jax.default_backend() == "cpu"
x = jax.device_put(jnp.arange(8.0), jax.sharding.NamedSharding(jax.make_mesh((4,), ("x",)), jax.sharding.PartitionSpec("x")))
assert float(jax.jit(jnp.sum)(x)) == 28
jax.distributed.shutdown()
"""
WITHOUT_ARGUMENTS = """
import jax
try:
    jax.distributed.initialize()
except ValueError as error:
    assert "coordinator_address" in str(error), error
assert len(jax.devices()) == 4 and int(jax.numpy.arange(4).sum()) == 6
"""


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


class Distributed(unittest.TestCase):
    def test_one_process_drives_the_cluster(self):
        with tempfile.TemporaryDirectory() as folder:
            script = pathlib.Path(folder) / "script.py"
            for platforms in ("proxy", "proxy,cpu"):
                for body in (SCRIPT.format(port=free_port()), WITHOUT_ARGUMENTS):
                    with self.subTest(platforms=platforms, body=body):
                        script.write_text(f'import os; os.environ["JAX_PLATFORMS"] = "{platforms}"\n' + body)
                        run_on_cluster((1, 2, 2), [script])


if __name__ == "__main__":
    unittest.main()
