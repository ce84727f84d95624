"""Large uploads through a directory that client and proxy share, with the client's own settings for it."""

import os
import tempfile
import unittest

from cluster import Up

PUTS = """
import jax, numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec as P
sharding = NamedSharding(Mesh(np.array(jax.devices()), ("x",)), P("x"))
for count in (1 << 10, 1 << 20, 3 << 20):
    host = np.arange(count, dtype=np.float32)
    for where in (jax.devices()[1], sharding):
        put = jax.device_put(host, where)
        assert (np.asarray(put + 1) == host + 1).all()
print("right")
"""


class Uploads(unittest.TestCase):
    def run_client(self, up, directory):
        up.env |= {"IFRT_PROXY_GRPC_LARGE_TRANSFER_OPTIMIZATION_DIRECTORY": directory,
                   "IFRT_PROXY_GRPC_LARGE_TRANSFER_OPTIMIZATION_THRESHOLD_BYTES": str(1 << 20)}
        return up.run(PUTS)

    def test_large_uploads_go_through_the_directory(self):
        with tempfile.TemporaryDirectory() as directory:
            with Up((1, 1, 4), ["--shared-upload-dir", directory]) as up:
                done = self.run_client(up, directory)
                self.assertIn("right", done.stdout, done.stderr[-3000:])
            self.assertEqual(os.listdir(directory), [])

    def test_without_it_the_server_says_what_is_missing(self):
        with tempfile.TemporaryDirectory() as directory, Up((1, 1, 4)) as up:
            done = self.run_client(up, directory)
            self.assertNotIn("right", done.stdout)
            self.assertIn("--shared-upload-dir", done.stderr)

    def test_a_link_out_of_the_directory_is_refused(self):
        with tempfile.TemporaryDirectory() as directory:
            target = os.path.join(directory, "somebody-elses")
            with open(target, "wb") as out:
                out.write(bytes(4 << 20))
            shared = os.path.join(directory, "shared")
            os.mkdir(shared)
            # The client writes through the links, the server must not read through them.
            for handle in range(1, 200):
                os.symlink(target, os.path.join(shared, f"lt_{handle}"))
            with Up((1, 1, 4), ["--shared-upload-dir", shared]) as up:
                done = self.run_client(up, shared)
                self.assertNotIn("right", done.stdout)
                self.assertRegex(done.stderr, r"the upload .*lt_\d+ can't be opened")


if __name__ == "__main__":
    unittest.main()
