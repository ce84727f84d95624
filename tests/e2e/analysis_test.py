"""What jax tells of a program, lowered or compiled, without running it."""

import json
import pathlib
import tempfile
import unittest

from cluster import plain_cpu, run_on_cluster

SCRIPT = """
import json, jax, jax.numpy as jnp
lowered = jax.jit(lambda x: jnp.sin(x @ x.T) @ x).lower(jnp.ones((64, 64)))
compiled = lowered.compile()
costs, memory = lowered.cost_analysis(), compiled.memory_analysis()
module, = compiled.runtime_executable().hlo_modules()
print(json.dumps({
    "lowered": [costs["flops"], costs["transcendentals"], costs["bytes accessed"]],
    "memory": [memory.argument_size_in_bytes, memory.output_size_in_bytes, memory.alias_size_in_bytes, memory.temp_size_in_bytes],
    "module": [module.name, "sine" in module.to_string(), len(module.as_serialized_hlo_module_proto()) > 100],
}))
"""


PASSES = """
import logging, jax
from jax.extend import xla
warnings = []
logging.getLogger("switchtower").addFilter(lambda record: warnings.append(record.getMessage()))
xla.register_hlo_module_transformation(lambda module: None, name="mine")
assert float(jax.jit(lambda x: x + 1)(1.0)) == 2
print(warnings)
"""


class Analysis(unittest.TestCase):
    def test_lowered_costs_compiled_memory_and_module_are_those_of_plain_cpu(self):
        with tempfile.TemporaryDirectory() as folder:
            script = pathlib.Path(folder) / "analysis.py"
            script.write_text(SCRIPT)
            expected, actual = (json.loads(output.splitlines()[-1])
                                for output in (plain_cpu([script]), run_on_cluster((1, 2, 1), [script])))
        self.assertEqual(expected, actual)
        self.assertGreater(expected["lowered"][0], 0)
        self.assertTrue(all(expected["module"]))

    def test_a_compiler_pass_of_the_client_is_told_not_to_run(self):
        with tempfile.TemporaryDirectory() as folder:
            script = pathlib.Path(folder) / "passes.py"
            script.write_text(PASSES)
            self.assertIn("'mine' runs for programs that this process compiles", run_on_cluster((1, 1, 1), [script]))


if __name__ == "__main__":
    unittest.main()
