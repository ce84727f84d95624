"""The cluster's devices by the name that they report, also where that is the first thing a script asks for."""

import pathlib
import tempfile
import unittest

from cluster import run_on_cluster

FIRST_LINES = (
    'assert jax.devices("cpu") == jax.devices("proxy")',
    'jax.config.update("jax_platform_name", "cpu"); assert int(jax.numpy.arange(3).sum()) == 3',
    'assert jax.devices()[1] == jax.devices("cpu")[1]; jax.clear_caches(); assert len(jax.local_devices(backend="cpu")) == 2',
)


class Names(unittest.TestCase):
    def test_the_reported_name_leads_to_the_cluster(self):
        with tempfile.TemporaryDirectory() as folder:
            for i, line in enumerate(FIRST_LINES):
                with self.subTest(line):
                    script = pathlib.Path(folder) / f"names_{i}.py"
                    script.write_text(f"import jax\n{line}\n")
                    run_on_cluster((1, 1, 2), [script])


if __name__ == "__main__":
    unittest.main()
