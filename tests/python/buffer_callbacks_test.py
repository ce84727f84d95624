"""Functions of buffers, without a cluster: what they see, whose memory they write."""

import pathlib
import sys
import types
import unittest

import numpy as np

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "python"))

from switchtower.buffer_callbacks import HostBuffer, on_arrays  # noqa: E402


def result(shape, dtype=np.float32):
    return types.SimpleNamespace(shape=shape, dtype=np.dtype(dtype))


class Buffers(unittest.TestCase):
    def test_operands_are_read_only_and_results_are_what_was_written(self):
        def function(context, x, out):
            self.assertEqual((x.shape, x.ndim, x.dtype, x.writeable), ((3,), 1, np.float32, False))
            self.assertEqual((out.shape, out.dtype, out.writeable), ((2, 3), np.int32, True))
            with self.assertRaises(ValueError):
                np.asarray(x)[0] = 1
            np.asarray(out)[...] = np.asarray(x)

        (out,) = on_arrays(function, [result((2, 3), np.int32)], {})(np.arange(3, dtype=np.float32))
        self.assertEqual(out.tolist(), [[0, 1, 2]] * 2)

    def test_an_aliased_result_is_the_operands_memory(self):
        def function(context, x, y, first, second):
            np.asarray(second)[...] += 1
            np.asarray(first)[...] = 7

        x, y = np.zeros(2, np.float32), np.ones(2, np.float32)
        first, second = on_arrays(function, [result((2,)), result((2,))], {1: 1})(x, y)
        self.assertIs(second, y)
        self.assertEqual((first.tolist(), second.tolist(), x.tolist()), ([7, 7], [2, 2], [0, 0]))

    def test_conversions(self):
        buffer = HostBuffer(np.arange(3), writeable=False)
        self.assertEqual(np.asarray(buffer, dtype=np.float64).tolist(), [0, 1, 2])
        self.assertEqual(np.from_dlpack(buffer).tolist(), [0, 1, 2])
        self.assertTrue(buffer.__array__(copy=True).flags.writeable)
        with self.assertRaisesRegex(ValueError, "without a copy"):
            buffer.__array__(np.float64, copy=False)


if __name__ == "__main__":
    unittest.main()
