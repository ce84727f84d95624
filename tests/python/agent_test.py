"""The agent's connection, against a proxy of a few lines."""

import gc
import json
import pathlib
import socket
import struct
import sys
import threading
import time
import unittest
from unittest import mock

sys.path.insert(0, str(pathlib.Path(__file__).parents[2] / "python"))

from switchtower import agent as agents
from switchtower.registry import Registry

_HEADER = struct.Struct("<IIQ")


class Proxy:
    """Takes one agent after the other and says what a test wants."""

    def __init__(self, test: unittest.TestCase):
        self._listener = socket.create_server(("127.0.0.1", 0))
        test.addCleanup(self._listener.close)

    def attach(self, registry: Registry, *lost) -> "tuple[agents.Agent, Link]":
        made = []
        port = self._listener.getsockname()[1]
        thread = threading.Thread(target=lambda: made.append(agents.Agent("127.0.0.1", port, "1:x", registry, *lost)))
        thread.start()
        link = Link(self._listener.accept()[0])
        assert link.receive()[0] == agents.HELLO
        link.send(agents.WELCOME, {})
        thread.join()
        return made[0], link


class Link:
    def __init__(self, connected: socket.socket):
        self.socket = connected
        connected.settimeout(20)

    def send(self, kind: int, head: dict, payload: bytes = b"") -> None:
        text = json.dumps(head).encode()
        body = struct.pack("<I", len(text)) + text + payload
        self.socket.sendall(_HEADER.pack(agents._MAGIC, kind, len(body)) + body)

    def receive(self) -> tuple[int, dict]:
        _, kind, size = _HEADER.unpack(self._exactly(_HEADER.size))
        body = self._exactly(size)
        (length,) = struct.unpack_from("<I", body)
        return kind, json.loads(body[4 : 4 + length])

    def _exactly(self, size: int) -> bytes:
        data = b""
        while len(data) < size:
            got = self.socket.recv(size - len(data))
            if not got:
                raise ConnectionError("closed by the agent")
            data += got
        return data


class AgentTest(unittest.TestCase):
    def setUp(self):
        self.proxy = Proxy(self)
        self.registry = Registry()

    def retire(self) -> int:
        """A function whose program is gone."""
        number = self.registry.add(len).number
        gc.collect()
        return number

    def test_what_was_retired_is_asked_for_again_by_the_next_agent(self):
        _, link = self.proxy.attach(self.registry)
        number = self.retire()
        self.assertEqual(link.receive(), (agents.RETIRE, {"callbacks": [number]}))
        link.socket.close()  # before it says that nobody calls it any more
        _, link = self.proxy.attach(self.registry)
        self.assertEqual(link.receive(), (agents.RETIRE, {"callbacks": [number]}))
        link.send(agents.RELEASED, {"callbacks": [number]})
        link.send(agents.MEMORY, {})  # no answer to any question
        last = self.retire()
        self.assertEqual(link.receive(), (agents.RETIRE, {"callbacks": [last]}))
        end = time.monotonic() + 60  # the thread that reads RELEASED isn't the one that sent RETIRE
        while self.registry.find(number) is not None and time.monotonic() < end:
            time.sleep(0.01)
        self.assertIsNone(self.registry.find(number))

    def test_an_agent_that_has_ended_takes_no_numbers(self):
        agent, link = self.proxy.attach(self.registry)
        link.socket.close()
        while not agent.closed:
            pass
        _, link = self.proxy.attach(self.registry)
        for _ in range(3):
            number = self.retire()
            self.assertEqual(link.receive(), (agents.RETIRE, {"callbacks": [number]}))

    def test_a_call_without_any_thread_ends_the_connection(self):
        agent, link = self.proxy.attach(self.registry)
        with mock.patch.object(threading.Thread, "start", side_effect=RuntimeError("can't start new thread")):
            link.send(agents.CALL, {"call": 1, "callback": 1})
            with self.assertRaises(ConnectionError):  # so the proxy fails the call
                link.receive()
        while not agent.closed:
            pass
        self.assertIn("new thread", agent.closed)

    def test_a_call_waits_for_the_threads_there_are(self):
        _, link = self.proxy.attach(self.registry)
        go_on, running = threading.Event(), threading.Event()

        def wait():
            running.set()
            go_on.wait()
            return ()

        handles = [self.registry.add(wait), self.registry.add(tuple), self.registry.add(tuple)]

        def call(number):
            return {"call": number, "callback": handles[number].number}

        link.send(agents.CALL, call(0))
        running.wait()
        with mock.patch.object(threading.Thread, "start", side_effect=RuntimeError("can't start new thread")):
            link.send(agents.CALL, call(1))
            go_on.set()
            answers = [link.receive(), link.receive()]
            link.send(agents.CALL, call(2))
            answers.append(link.receive())
        self.assertEqual(answers, [(agents.RETURN, {"call": number}) for number in range(3)])

    def test_what_a_function_raises_goes_out_whatever_its_text(self):
        def bad():
            raise ValueError("the beginning " + "\udcff\0" * 1_000_000 + " the end")
        handle = self.registry.add(bad)
        _, link = self.proxy.attach(self.registry)
        link.send(agents.CALL, {"call": 1, "callback": handle.number})
        kind, head = link.receive()
        self.assertEqual((kind, head["call"]), (agents.RETURN, 1))
        self.assertLess(len(head["error"].encode()), 64 << 10)
        self.assertRegex(head["error"], r"(?s)Traceback.*ValueError: the beginning \\udcff.* the end")

    def test_a_traceback_begins_with_the_users_function(self):
        def bad():
            raise ValueError("here")
        handle = self.registry.add(bad)
        _, link = self.proxy.attach(self.registry)
        link.send(agents.CALL, {"call": 1, "callback": handle.number})
        lines = link.receive()[1]["error"].splitlines()
        self.assertEqual(lines[0], "Traceback (most recent call last):")
        self.assertRegex(lines[1], rf'File "{__file__}", line \d+, in bad')
        link.send(agents.CALL, {"call": 2, "callback": handle.number + 1})
        self.assertRegex(link.receive()[1]["error"], r"(?s)Traceback.*agent.py.*no callback")  # there is no such function

    def test_a_lost_connection_is_told(self):
        lost = threading.Event()
        agent, link = self.proxy.attach(self.registry, lost.set)
        link.socket.close()
        self.assertTrue(lost.wait(60))
        self.assertTrue(agent.closed)

    def test_who_asks_when_the_connection_ends_hears_so(self):
        agent, link = self.proxy.attach(self.registry)
        errors = []

        def ask():
            try:
                agent.memory()
            except RuntimeError as error:
                errors.append(str(error))

        asks = threading.Thread(target=ask)
        asks.start()
        self.assertEqual(link.receive()[0], agents.ASK_MEMORY)
        link.socket.close()
        asks.join()
        ask()
        self.assertEqual(len(errors), 2)
        for error in errors:
            self.assertIn("the connection to the proxy has ended", error)
        self.assertFalse(agent._questions)


if __name__ == "__main__":
    unittest.main()
