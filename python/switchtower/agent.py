"""The second connection to the proxy, from the client's own process: runs the functions that programs call and asks
what jax's client can't ask for.

  reader thread --CALL--> pool of threads --RETURN--> proxy
                --RELEASED--> registry
                --MEMORY--> who asked

The protocol is proto/switchtower/client_agent.proto, spoken with the standard library alone, so that the package can't
be at odds with what else is installed. All threads are daemons: a function that never returns doesn't keep the process.
"""

import contextlib
import json
import logging
import math
import os
import queue
import socket
import struct
import sys
import threading
import traceback
from collections.abc import Callable, Sequence

import ml_dtypes
import numpy as np

from switchtower.registry import Registry

_log = logging.getLogger("switchtower")

PROTOCOL_VERSION = 1
HELLO, WELCOME, CALL, RETURN, RETIRE, RELEASED, ASK_MEMORY, MEMORY = range(1, 9)

_HEADER = struct.Struct("<IIQ")  # magic, kind, length of the body
_MAGIC = 0x31465753  # "SWF1"
_LENGTH = struct.Struct("<I")
# Calls that run at once; more wait. Far above the number of devices, since a function may wait for a program that calls
# another one.
_THREADS_MAX = 64
_CONNECT_SECONDS = 30.0
_KEEPALIVE_SECONDS = 30
_ANSWER_SECONDS = 60.0
# Of what a function raised; the proxy passes on so much.
_ERROR_BYTES_MAX = 60_000
_BEFORE_THE_USERS = (os.path.dirname(__file__) + os.sep, os.path.join(os.sep, "jax", "_src", ""))  # frames of a callback

TOKEN = 17
# IFRT's DType -> (numpy's type, bits of an element on the device)
_DTYPES = {
    1: (np.bool_, 8),
    2: (np.int8, 8),
    3: (np.int16, 16),
    4: (np.int32, 32),
    5: (np.int64, 64),
    6: (np.uint8, 8),
    7: (np.uint16, 16),
    8: (np.uint32, 32),
    9: (np.uint64, 64),
    10: (np.float16, 16),
    11: (np.float32, 32),
    12: (np.float64, 64),
    15: (np.complex64, 64),
    16: (ml_dtypes.bfloat16, 16),
    18: (np.complex128, 128),
    19: (ml_dtypes.float8_e5m2, 8),
    20: (ml_dtypes.float8_e4m3fn, 8),
    21: (ml_dtypes.int4, 4),
    22: (ml_dtypes.uint4, 4),
    23: (ml_dtypes.float8_e4m3b11fnuz, 8),
    24: (ml_dtypes.float8_e5m2fnuz, 8),
    25: (ml_dtypes.float8_e4m3fnuz, 8),
    26: (getattr(ml_dtypes, "int2", None), 2),
    27: (getattr(ml_dtypes, "uint2", None), 2),
    28: (getattr(ml_dtypes, "float8_e4m3", None), 8),
    29: (getattr(ml_dtypes, "float8_e3m4", None), 8),
    30: (getattr(ml_dtypes, "float4_e2m1fn", None), 4),
    31: (getattr(ml_dtypes, "float8_e8m0fnu", None), 8),
    32: (getattr(ml_dtypes, "int1", None), 1),
    33: (getattr(ml_dtypes, "uint1", None), 1),
}


class Value:
    """The type of an operand or a result."""

    def __init__(self, proto: dict):
        code = proto.get("dtype", 0)
        self.is_token = code == TOKEN
        self.dims = tuple(int(d) for d in proto.get("dims", ()))
        dtype, self.bits = (None, 0) if self.is_token else _DTYPES.get(code, (None, 0))
        if dtype is None and not self.is_token:
            raise TypeError(f"a callback can't take or give element type {code} with this version of ml_dtypes")
        self.dtype = None if self.is_token else np.dtype(dtype)
        self.elements = 0 if self.is_token else math.prod(self.dims)
        self.bytes = (self.elements * self.bits + 7) // 8


def unpack(value: Value, data: memoryview) -> np.ndarray | None:
    if value.is_token:
        return None
    if value.bits >= 8:
        return np.frombuffer(data, dtype=value.dtype, count=value.elements).reshape(value.dims)
    per_byte = 8 // value.bits
    packed = np.frombuffer(data, dtype=np.uint8)
    shifts = np.arange(per_byte, dtype=np.uint8) * np.uint8(value.bits)
    elements = ((packed[:, None] >> shifts) & np.uint8((1 << value.bits) - 1)).reshape(-1)[: value.elements]
    return _from_bits(elements, value).reshape(value.dims)


def pack(value: Value, result) -> bytes:
    if value.is_token:
        return b""
    array = np.asarray(result)
    if array.shape != value.dims or array.dtype != value.dtype:
        raise TypeError(
            f"a callback gave {array.dtype}{list(array.shape)} instead of {value.dtype}{list(value.dims)}"
        )
    if value.bits >= 8:
        return np.ascontiguousarray(array).tobytes()
    per_byte = 8 // value.bits
    elements = np.zeros(-(-value.elements // per_byte) * per_byte, np.uint8)
    elements[: value.elements] = np.ascontiguousarray(array).reshape(-1).view(np.uint8)
    elements &= np.uint8((1 << value.bits) - 1)
    shifts = np.arange(per_byte, dtype=np.uint8) * np.uint8(value.bits)
    return np.bitwise_or.reduce(elements.reshape(-1, per_byte) << shifts, axis=1).astype(np.uint8).tobytes()


def error_text() -> str:
    """The traceback of the exception at hand from the user's function on, without its middle if it is long, as text that
    every encoding can take."""
    kind, error, frames = sys.exc_info()
    own = frames
    while own is not None and any(part in own.tb_frame.f_code.co_filename for part in _BEFORE_THE_USERS):
        own = own.tb_next
    text = "".join(traceback.format_exception(kind, error, own or frames)).encode(errors="backslashreplace")
    if len(text) > _ERROR_BYTES_MAX:
        half = _ERROR_BYTES_MAX // 2
        text = text[:half] + b"\n... (%d bytes) ...\n" % (len(text) - 2 * half) + text[-half:]
    return text.decode(errors="ignore")


def _from_bits(elements: np.ndarray, value: Value) -> np.ndarray:
    """Low bits of bytes as numpy's one element a byte; signed integers get their sign back."""
    if value.dtype.name in ("int1", "int2", "int4"):
        shift = np.uint8(8 - value.bits)
        elements = ((elements << shift).view(np.int8) >> np.int8(shift)).view(np.uint8)
    return elements.view(value.dtype)


def address_of(target: str) -> tuple[str, int]:
    """Of JAX_BACKEND_TARGET."""
    host, _, port = target.rpartition("/")[2].rpartition(":")
    return host.strip("[]"), int(port)


class Refused(RuntimeError):
    """The proxy is there, and its session isn't, or has an agent already."""


class Agent:
    """One attached connection. `token` comes from a device of the session; `lost` is called, on a thread of its own, when
    the connection has ended."""

    def __init__(self, host: str, port: int, token: str, registry: Registry, lost: Callable[[], None] = lambda: None):
        self._registry = registry
        self._lost = lost
        self._socket = socket.create_connection((host, port), timeout=_CONNECT_SECONDS)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        # A program may call nobody for hours, and what is between here and the proxy forget the connection.
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        if hasattr(socket, "TCP_KEEPIDLE"):
            self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, _KEEPALIVE_SECONDS)
        self._sending = threading.Lock()
        self._calls: queue.SimpleQueue = queue.SimpleQueue()
        self._lock = threading.Lock()
        self._idle = self._threads = 0
        self._questions: dict[int, queue.SimpleQueue] = {}
        self._last_question = 0
        self._unreleased: set[int] = set()  # numbers that the proxy was told of, and hasn't let go yet
        self.closed: str | None = None
        self._send(HELLO, {"version": PROTOCOL_VERSION, "token": token})
        kind, head, _ = self._receive()
        if kind != WELCOME or head.get("error"):
            self._socket.close()
            raise Refused(f"the proxy refuses this process's agent: {head.get('error', 'unexpected answer')}")
        self._socket.settimeout(None)
        threading.Thread(target=self._read, name="switchtower agent", daemon=True).start()
        threading.Thread(target=self._retire, name="switchtower retire", daemon=True).start()

    def memory(self) -> dict[int, dict]:
        """Bytes in use by device id."""
        answer: queue.SimpleQueue = queue.SimpleQueue()
        with self._lock:
            if self.closed:
                raise RuntimeError(f"the connection to the proxy has ended: {self.closed}")
            self._last_question += 1
            number = self._last_question
            self._questions[number] = answer
        try:
            self._send(ASK_MEMORY, {"request": number})
            head = answer.get(timeout=_ANSWER_SECONDS)
        except OSError as error:
            raise RuntimeError(f"the connection to the proxy has ended: {error}") from None
        except queue.Empty:
            raise RuntimeError("the proxy doesn't say what its devices hold") from None
        finally:
            self._questions.pop(number, None)
        if head is None:
            raise RuntimeError(f"the connection to the proxy has ended: {self.closed}")
        return {int(device.get("device", 0)): device for device in head.get("devices", ())}

    # ---- frames

    def _send(self, kind: int, head: dict, payload: Sequence[bytes] = ()) -> None:
        text = json.dumps(head).encode()
        size = _LENGTH.size + len(text) + sum(len(piece) for piece in payload)
        start = _HEADER.pack(_MAGIC, kind, size) + _LENGTH.pack(len(text)) + text
        with self._sending:
            self._socket.sendall(start)
            for piece in payload:
                self._socket.sendall(piece)

    def _receive(self) -> tuple[int, dict, memoryview]:
        magic, kind, size = _HEADER.unpack(self._read_exactly(_HEADER.size))
        if magic != _MAGIC:
            raise ConnectionError("what answers there is no Switchtower proxy")
        body = self._read_exactly(size)
        (length,) = _LENGTH.unpack_from(body)
        head = json.loads(bytes(body[_LENGTH.size : _LENGTH.size + length]))
        return kind, head, body[_LENGTH.size + length :]

    def _read_exactly(self, size: int) -> memoryview:
        data = memoryview(bytearray(size))
        have = 0
        while have < size:
            got = self._socket.recv_into(data[have:])
            if got == 0:
                raise ConnectionError("closed by the proxy")
            have += got
        return data

    # ---- threads

    def _read(self) -> None:
        try:
            while True:
                kind, head, payload = self._receive()
                if kind == CALL:
                    self._start(head, payload)
                elif kind == RELEASED:
                    for number in map(int, head.get("callbacks", ())):
                        self._unreleased.discard(number)
                        self._registry.release(number)
                elif kind == MEMORY:
                    answer = self._questions.get(int(head.get("request", 0)))
                    if answer is not None:
                        answer.put(head)
        except Exception as error:  # pylint: disable=broad-except
            self._end(str(error) or type(error).__name__)
            self._lost()

    def _end(self, why: str) -> None:
        """Nobody reads on. The proxy must hear of it: it fails the calls that wait, and takes the session's next agent."""
        with self._lock:
            self.closed = why
            questions = list(self._questions.values())
            unreleased = list(self._unreleased)
        with contextlib.suppress(OSError):  # the proxy was first
            self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()
        for answer in questions:
            answer.put(None)
        for number in unreleased:
            self._registry.retired.put(number)  # the next agent asks again

    def _start(self, head: dict, payload: memoryview) -> None:
        with self._lock:
            grow = self._idle <= self._calls.qsize() and self._threads < _THREADS_MAX
            self._threads += grow
            number = self._threads
        self._calls.put((head, payload))
        if not grow:
            return
        try:
            threading.Thread(target=self._serve, name=f"switchtower callback {number}", daemon=True).start()
        except RuntimeError:  # the process gets no more threads: those that are there take the call in its turn
            with self._lock:
                self._threads -= 1
                alone = self._threads == 0
            if alone:
                raise

    def _serve(self) -> None:
        while True:
            with self._lock:
                self._idle += 1
            head, payload = self._calls.get()
            with self._lock:
                self._idle -= 1
            call = head.get("call", 0)
            try:
                answer, results = {"call": call}, self._run(head, payload)
            except BaseException:  # pylint: disable=broad-except
                answer, results = {"call": call, "error": error_text()}, ()
            try:
                self._send(RETURN, answer, results)
            except OSError as error:
                _log.debug("a callback's result found no proxy: %s", error)
            del head, payload, results

    def _run(self, head: dict, payload: memoryview) -> list[bytes]:
        number = int(head.get("callback", 0))
        function = self._registry.find(number)
        if function is None:
            raise RuntimeError(f"this process has no callback {number}: it belongs to a session that has ended")
        arguments, at = [], 0
        for value in map(Value, head.get("operands", ())):
            arguments.append(unpack(value, payload[at : at + value.bytes]))
            at += value.bytes
        results = function(*arguments)
        values = [Value(proto) for proto in head.get("results", ())]
        return [pack(value, result) for value, result in zip(values, results, strict=True)]

    def _retire(self) -> None:
        while not self.closed:
            numbers = [self._registry.retired.get()]
            with contextlib.suppress(queue.Empty):
                while True:
                    numbers.append(self._registry.retired.get_nowait())
            with self._lock:
                ours = not self.closed
                if ours:
                    self._unreleased.update(numbers)
            if not ours:
                for number in numbers:
                    self._registry.retired.put(number)
                return
            try:
                self._send(RETIRE, {"callbacks": numbers})
            except OSError:
                return  # the reader sees it, too
