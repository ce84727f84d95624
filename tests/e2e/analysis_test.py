"""What jax tells of a program, lowered or compiled, without running it."""

import json
import pathlib
import tempfile
import unittest

from cluster import plain_cpu, run_on_cluster

SCRIPT = """
import json, jax, jax.numpy as jnp
lowered = jax.jit(lambda x: jnp.sin(x @ x.T) @ x).lower(jnp.ones((64, 64)))
costs, memory = lowered.cost_analysis(), lowered.compile().memory_analysis()
print(json.dumps({
    "lowered": [costs["flops"], costs["transcendentals"], costs["bytes accessed"]],
    "memory": [memory.argument_size_in_bytes, memory.output_size_in_bytes, memory.alias_size_in_bytes, memory.temp_size_in_bytes],
}))
"""


class Analysis(unittest.TestCase):
    def test_lowered_costs_and_compiled_memory_are_those_of_plain_cpu(self):
        with tempfile.TemporaryDirectory() as folder:
            script = pathlib.Path(folder) / "analysis.py"
            script.write_text(SCRIPT)
            expected, actual = (json.loads(output.splitlines()[-1])
                                for output in (plain_cpu([script]), run_on_cluster((1, 2, 1), [script])))
        self.assertEqual(expected, actual)
        self.assertGreater(expected["lowered"][0], 0)


if __name__ == "__main__":
    unittest.main()
