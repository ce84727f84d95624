"""pathwaysutils' own requests: arrays to other shardings and devices, cut and joined by mesh axis, by the IFRT calls and by
plug-in programs."""

import pathlib
import tempfile
import unittest

from cluster import run_on_cluster

PRELUDE = """
import jax, jax.numpy as jnp, numpy as np, pathwaysutils
from jax.sharding import Mesh, NamedSharding, PartitionSpec as P, SingleDeviceSharding
pathwaysutils.initialize()
devices = np.array(jax.devices())
square, line = Mesh(devices.reshape(4, 2), ("a", "b")), Mesh(devices[::-1], ("x",))
half = Mesh(devices[4:], ("h",))
values = {
    "matrix": np.arange(16 * 12, dtype=np.float32).reshape(16, 12), "small": np.arange(8, dtype=np.int8) - 4,
    "half": np.arange(24).astype(jnp.bfloat16), "scalar": np.float32(3), "many": np.arange(64, dtype=np.uint8).reshape(8, 2, 4),
}
def put(mesh, *spec):
    return {k: jax.device_put(v, NamedSharding(mesh, P(*spec[: v.ndim]))) for k, v in values.items()}
def check(arrays, mesh, *spec):
    for key, array in arrays.items():
        expected = NamedSharding(mesh, P(*spec[: values[key].ndim]))
        assert array.sharding.is_equivalent_to(expected, array.ndim), (key, array.sharding, expected)
        np.testing.assert_array_equal(np.asarray(array), values[key])
        for shard in array.addressable_shards:
            np.testing.assert_array_equal(np.asarray(shard.data), values[key][shard.index])
def shardings(mesh, *spec):
    return {k: NamedSharding(mesh, P(*spec[: v.ndim])) for k, v in values.items()}
MOVES = [((square, "a"), (line, "x")), ((line, "x"), (half, "h")), ((half, None), (square, "b")), ((square, ("a", "b")), (half, None)),
         ((square, "b"), (square, "b"))]
"""

RESHARD = """
from pathwaysutils import reshard
for source, target in MOVES:
    arrays = put(*source)
    check(reshard.reshard(arrays, shardings(*target)), *target)
    check(arrays, *source)
    check(reshard.reshard(arrays, shardings(*target), donate=True), *target)
    assert all(array.is_deleted() for array in arrays.values())
key = jax.random.key(7)
assert (jax.random.bits(reshard.reshard(key, NamedSharding(half, P()))) == jax.random.bits(key))
wide, narrow = NamedSharding(Mesh(devices.reshape(8, 1), ("f", "t")), P("f", None)), NamedSharding(Mesh(devices.reshape(2, 4), ("f", "t")), P(None, "t"))
x = jax.device_put(values["matrix"], wide)
y = reshard.reshard_with_intermediate_sharding(x, wide, narrow)
assert y.sharding == narrow
np.testing.assert_array_equal(np.asarray(y), values["matrix"])
"""

PLUGIN_PROGRAM = """
from pathwaysutils.experimental import reshard
for cache in (False, True):
    for source, target in MOVES:
        for _ in range(3):  # with the cache, later executions of one program
            arrays = put(*source)
            check(reshard.reshard(arrays, shardings(*target), cache_resharding_plans=cache), *target)
            check(arrays, *source)
arrays = put(square, "a")
check(reshard.reshard(arrays, shardings(line, "x"), donate=True), line, "x")
assert reshard.reshard(jnp.ones(4), NamedSharding(half, P("h"), memory_kind="pinned_host")).sharding.memory_kind == "pinned_host"
wrong = jax.device_put(values["matrix"], NamedSharding(square, P("a")))
pinned = reshard.reshard(wrong, SingleDeviceSharding(devices[3]))
np.testing.assert_array_equal(np.asarray(pinned), values["matrix"])
"""

OTHER_PROGRAMS = """
from pathwaysutils import plugin_executable
import json
for name in ("profileRequest", "bulk_persistence_write_request", "somethingElse"):
    try:
        plugin_executable.PluginExecutable(json.dumps({name: {}}))
    except jax.errors.JaxRuntimeError as error:
        assert "UNIMPLEMENTED" in str(error) and name in str(error), error
    else:
        raise AssertionError(name)
try:
    plugin_executable.PluginExecutable("nothing")
except jax.errors.JaxRuntimeError as error:
    assert "Bad PluginProgram" in str(error), error
"""

MESH_AXES = """
from pathwaysutils.experimental import concatenate_by_mesh_axis, split_by_mesh_axis
arrays = put(square, "a", "b")
quarters = split_by_mesh_axis.split_by_mesh_axis(arrays, "a")
assert len(quarters) == 4
for i, part in enumerate(quarters):
    for key, array in part.items():
        assert array.sharding.device_set == set(devices.reshape(4, 2)[i])
        rows = values[key].shape[0] // 4 if values[key].ndim else None
        expected = values[key][i * rows : (i + 1) * rows] if rows else values[key]
        np.testing.assert_array_equal(np.asarray(array), expected)
check(arrays, square, "a", "b")
uneven = split_by_mesh_axis.split_by_mesh_axis(arrays, "a", [1, 3])
assert [part["matrix"].shape for part in uneven] == [(4, 12), (8, 12), (4, 12)]
joined = concatenate_by_mesh_axis.concatenate_by_mesh_axis(uneven, "a")
check(joined, square, "a", "b")
columns = split_by_mesh_axis.split_by_mesh_axis(joined, "b", donate=True)
assert [part["matrix"].shape for part in columns] == [(16, 6)] * 2
check(concatenate_by_mesh_axis.concatenate_by_mesh_axis(columns, "b"), square, "a", "b")
assert all(array.is_deleted() for part in columns for array in part.values())
"""


class Resharding(unittest.TestCase):
    def test_what_pathwaysutils_asks_for(self):
        with tempfile.TemporaryDirectory() as folder:
            for name, body in (("reshard", RESHARD), ("plugin_program", PLUGIN_PROGRAM), ("other_programs", OTHER_PROGRAMS),
                               ("mesh_axes", MESH_AXES)):
                with self.subTest(name):
                    script = pathlib.Path(folder) / f"{name}.py"
                    script.write_text(PRELUDE + body)
                    run_on_cluster((2, 2, 2), [script])


if __name__ == "__main__":
    unittest.main()
