"""Which function has which number, from the lowering that names it until no program can call it any more.

A Handle lives as long as jax keeps the program that was lowered with it. When it goes, programs that were launched
before may still call the function, so it is kept until the proxy says that it was released. A number is never used
again in the process, whatever becomes of the session.
"""

import itertools
import queue
import threading
import weakref
from collections.abc import Callable


class Handle:
    """What jax keeps beside a program (a "keepalive")."""

    def __init__(self, registry: "Registry", number: int, function: Callable):
        self.registry, self.number, self.function = registry, number, function

    def __del__(self):
        # Any thread, at any moment: no lock may be taken here.
        self.registry._retiring[self.number] = self.function
        self.registry.retired.put(self.number)


class Registry:
    def __init__(self):
        self._numbers = itertools.count(1)
        self._live: weakref.WeakValueDictionary[int, Handle] = weakref.WeakValueDictionary()
        self._retiring: dict[int, Callable] = {}
        self._lock = threading.Lock()
        # Numbers whose handle is gone, for the agent to tell the proxy. Safe to put to from a destructor.
        self.retired: queue.SimpleQueue[int] = queue.SimpleQueue()

    def add(self, function: Callable) -> Handle:
        with self._lock:
            handle = Handle(self, next(self._numbers), function)
            self._live[handle.number] = handle
        return handle

    def find(self, number: int) -> Callable | None:
        handle = self._live.get(number)
        return handle.function if handle is not None else self._retiring.get(number)

    def release(self, number: int) -> None:
        self._retiring.pop(number, None)

    def __len__(self):
        return len(self._live) + len(self._retiring)
