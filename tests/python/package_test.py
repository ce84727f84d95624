"""The client's package without a cluster: bytes of values, numbers of functions, versions of jax."""

import gc
import logging
import os
import pathlib
import sys
import threading
import unittest
from unittest import mock

import numpy as np

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "python"))

from switchtower import agent, jax_patches, quiet_client  # noqa: E402
from switchtower.registry import Registry  # noqa: E402


class Values(unittest.TestCase):
    def test_every_type_survives_the_way_to_the_device(self):
        for code, (dtype, bits) in agent._DTYPES.items():
            if dtype is None:
                continue
            value = agent.Value({"dtype": code, "dims": ["3", "3"]})
            array = np.array([[0, 1, 0], [1, 1, 0], [0, 0, 1]]).astype(dtype)
            with self.subTest(dtype=np.dtype(dtype).name):
                data = agent.pack(value, array)
                self.assertEqual(len(data), (9 * bits + 7) // 8)
                back = agent.unpack(value, memoryview(data))
                self.assertEqual(back.dtype, array.dtype)
                self.assertEqual(agent.pack(value, back), data)
                if bits >= 8:
                    self.assertEqual(back.tobytes(), array.tobytes())

    def test_small_integers_keep_their_sign_and_lie_lowest_bits_first(self):
        value = agent.Value({"dtype": 21, "dims": ["3"]})
        array = np.array([-8, 7, -1]).astype(value.dtype)
        self.assertEqual(agent.pack(value, array), bytes([0x78, 0x0F]))
        self.assertEqual(agent.unpack(value, memoryview(bytes([0x78, 0x0F]))).astype(int).tolist(), [-8, 7, -1])

    def test_tokens_have_no_bytes_and_wrong_results_are_named(self):
        token = agent.Value({"dtype": agent.TOKEN})
        self.assertEqual((agent.pack(token, None), agent.unpack(token, memoryview(b""))), (b"", None))
        with self.assertRaisesRegex(TypeError, r"gave float64\[2\] instead of float32\[3\]"):
            agent.pack(agent.Value({"dtype": 11, "dims": ["3"]}), np.zeros(2))
        with self.assertRaisesRegex(TypeError, "element type 77"):
            agent.Value({"dtype": 77})


class QuietClient(unittest.TestCase):
    @staticmethod
    def slack_of_a_new_thread():
        found = []
        thread = threading.Thread(
            target=lambda: found.append(int(pathlib.Path(f"/proc/{threading.get_native_id()}/timerslack_ns").read_text())))
        thread.start()
        thread.join()
        return found[0]

    def test_threads_started_inside_may_sleep_longer(self):
        before = self.slack_of_a_new_thread()
        with self.assertRaises(KeyError), quiet_client.timer_slack(quiet_client.SLACK_NS):
            self.assertEqual(self.slack_of_a_new_thread(), quiet_client.SLACK_NS)
            raise KeyError
        self.assertEqual(self.slack_of_a_new_thread(), before)

    def test_the_client_is_made_inside_and_only_once(self):
        from jax.extend.backend import ifrt_proxy

        def get_client(*args, **options):
            return args, options, self.slack_of_a_new_thread(), os.environ.get("GRPC_EXPERIMENTS")

        with mock.patch.object(ifrt_proxy, "get_client", get_client), mock.patch.dict(os.environ):
            os.environ.pop("GRPC_EXPERIMENTS", None)
            quiet_client.install()
            quiet_client.install()
            self.assertEqual(ifrt_proxy.get_client("grpc://host:1", timeout=3),
                             (("grpc://host:1",), {"timeout": 3}, quiet_client.SLACK_NS, "-event_engine_client"))
            self.assertNotIn("GRPC_EXPERIMENTS", os.environ)

    def test_what_the_user_says_of_experiments_stays(self):
        def inside(chosen):
            with mock.patch.dict(os.environ, {"GRPC_EXPERIMENTS": chosen}):
                with quiet_client.without_experiment("one"):
                    seen = os.environ["GRPC_EXPERIMENTS"]
                self.assertEqual(os.environ["GRPC_EXPERIMENTS"], chosen)
                return seen

        self.assertEqual(inside("one"), "one")
        self.assertEqual(inside("two,-one"), "two,-one")
        self.assertEqual(inside("two,-three"), "two,-three,-one")
        self.assertEqual(inside(""), "-one")


class Functions(unittest.TestCase):
    def test_a_function_stays_until_it_is_released(self):
        registry = Registry()
        handle = registry.add(len)
        number = handle.number
        self.assertIs(registry.find(number), len)
        del handle
        gc.collect()
        self.assertEqual(registry.retired.get_nowait(), number)
        self.assertIs(registry.find(number), len)  # a launch may still be on its way
        registry.release(number)
        self.assertIsNone(registry.find(number))
        self.assertEqual(len(registry), 0)
        self.assertGreater(registry.add(len).number, number)


class Versions(unittest.TestCase):
    def test_an_unknown_jax_is_left_alone_with_one_warning(self):
        import jax
        from jax._src import callback

        before = callback.ffi
        with mock.patch.object(jax_patches, "_installed", False), mock.patch.object(jax, "__version__", "9.9"), \
             self.assertLogs("switchtower", logging.WARNING) as logs:
            jax_patches.install()
            jax_patches.install()
        self.assertEqual(len(logs.records), 1)
        self.assertIs(callback.ffi, before)


class Addresses(unittest.TestCase):
    def test_targets(self):
        self.assertEqual(agent.address_of("grpc://10.0.0.1:29000"), ("10.0.0.1", 29000))
        self.assertEqual(agent.address_of("grpc://[::1]:7"), ("::1", 7))


if __name__ == "__main__":
    unittest.main()
