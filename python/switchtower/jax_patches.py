"""The private parts of jax that the client agent needs, for the versions that were looked at. Another version is left
as it is, with one warning.

  callbacks      jax lowers a callback for "cpu" to a custom call that names a Python function by its position. Here it
                 names it by a number of the registry, and the wheel's client, which can't pass functions on, gets none.
  buffers        buffer_callback's functions are callbacks too (buffer_callbacks.py).
  local devices  callbacks get their arguments on a local CPU device, also where only "proxy" is in JAX_PLATFORMS.
  copies         device_put to a sharding of another client's devices goes by the host.
  host arrays    go as copies where the wheel refuses their strides (host_arrays.py).
  dlpack         arrays of other libraries come and go by the host (dlpack.py).
  names          where only "proxy" is there, the name that its devices report leads to it.
  memory_stats   asks the agent.
  hlo_modules    of a compiled program are read from its text, which the wheel's client can get.
  lowered costs  are counted by a local CPU client's cost model (lowered_costs.py).
  unreduced      gives the server's newer XLA the constraints that it wants (unreduced.py).
  async          makes collectives that jax starts and ends apart whole (async_collectives.py).
  call sites     launches carry the line of the script that asked for them, which `switchtower why` tells.
  partitioning   answers what XLA would ask its client while it partitions a program (partitioning.py).
  passes         of the user's own that jax gives to XLA can't run in the server: a warning says so.
"""

import contextlib
import functools
import logging
import os
import sys
import threading
import time
import weakref

import jax
import numpy as np

from switchtower import async_collectives, buffer_callbacks, dlpack, host_arrays, lowered_costs, partitioning, unreduced
from switchtower.agent import Agent, Refused, address_of
from switchtower.overlay import Overlay
from switchtower.registry import Registry

_log = logging.getLogger("switchtower")

KNOWN_VERSIONS = ("0.10.1", "0.10.2", "0.11.0", "0.12.0.1")

_CALLBACK_TARGETS = ("xla_ffi_python_cpu_callback", "xla_ffi_partitioned_python_cpu_callback")
_RUNTIME = "proxy/switchtower"
# The proxy may not have seen yet that the connection has ended. A session that has ended isn't there after a minute either.
_ATTACH_AGAIN_AFTER = (0, 0.1, 1, 5, 15, 40)
# What jax keeps for a thread and compiles programs by.
_CONTEXTS = ("enable_x64", "default_matmul_precision", "numpy_dtype_promotion", "numpy_rank_promotion", "default_prng_impl")

_registry = Registry()
_agents: "weakref.WeakKeyDictionary" = weakref.WeakKeyDictionary()  # client -> Agent
_lock = threading.Lock()
_installed = False
_local_cpu = None


def install() -> None:
    global _installed
    with _lock:
        if _installed:
            return
        _installed = True
    if jax.__version__ not in KNOWN_VERSIONS:
        _log.warning(
            "jax %s isn't known to this version of the switchtower package (known: %s): programs run, but callbacks "
            "(jax.debug.print, pure_callback, io_callback), memory_stats() and device names other than \"proxy\" are "
            "left as they are",
            jax.__version__,
            ", ".join(KNOWN_VERSIONS),
        )
        return
    from jax._src import array, callback, compiler, debugging, xla_bridge
    from jax._src.lib import xla_client

    array.xc = Overlay(array.xc, batched_copy_array_to_devices_with_sharding=_copy_arrays(array.xc))
    callback.ffi = Overlay(callback.ffi, build_ffi_lowering_function=_lowering_builder(callback.ffi))
    buffer_callbacks.install(_is_ours, callback.ffi.build_ffi_lowering_function)
    callback.xb = Overlay(callback.xb, local_devices=_local_devices)
    debugging.xla_bridge = Overlay(debugging.xla_bridge, local_devices=_local_devices)
    _send_call_sites()
    dlpack.install(_is_ours, _local_client)
    host_arrays.install(_is_ours)
    lowered_costs.install(_local_client)
    unreduced.install()
    partitioning.install(_is_ours)
    async_collectives.install(_is_ours)
    _warn_of_passes()
    compiler.backend_compile_and_load = _compile_without_functions(compiler.backend_compile_and_load)
    if not xla_bridge._backends:
        xla_bridge._backends = _BackendTable()
    xla_bridge._get_backend_uncached = _backend_by_name(xla_bridge._get_backend_uncached)
    xla_bridge.register_backend_factory = _register_once(xla_bridge.register_backend_factory)
    jax.extend.backend.register_backend_factory = xla_bridge.register_backend_factory
    xla_client.Device.memory_stats = _memory_stats(xla_client.Device.memory_stats)
    xla_client.LoadedExecutable.hlo_modules = _hlo_modules(xla_client.LoadedExecutable.hlo_modules)


def _is_ours(client) -> bool:
    return getattr(client, "runtime_type", None) == _RUNTIME


def agent_of(client) -> Agent:
    """The agent of a session, attached on first use and whenever its connection was lost."""
    with _lock:
        agent = _agents.get(client)
        if agent is None or agent.closed:
            host, port = address_of(jax.config.read("jax_backend_target"))
            token = client.devices()[0].switchtower_agent
            lost = functools.partial(_attach_again, weakref.ref(client))
            agent = _agents[client] = Agent(host, port, token, _registry, lost)
        return agent


def _attach_again(of) -> None:
    """Programs that are compiled already ask nobody for an agent, and call functions all the same."""
    for seconds in _ATTACH_AGAIN_AFTER:
        time.sleep(seconds)
        client = of()
        if client is None or sys.is_finalizing():
            return
        try:
            agent_of(client)
            return
        except (Refused, OSError) as error:
            _log.debug("the agent isn't attached again: %s", error)
        del client


# ---- call sites


def _send_call_sites() -> None:
    if "JAX_SEND_TRACEBACK_TO_RUNTIME" not in os.environ:  # who names it has chosen
        jax.config.update("jax_send_traceback_to_runtime", "on")


# ---- callbacks


def _lowering_builder(ffi):
    def build_ffi_lowering_function(target, **options):
        lower = ffi.build_ffi_lowering_function(target, **options)
        if target not in _CALLBACK_TARGETS:
            return lower

        def lower_callback(ctx, *operands, index):
            module = ctx.module_context
            client = module.get_backend()
            if not _is_ours(client):
                return lower(ctx, *operands, index=index)
            agent_of(client)
            handle = _registry.add(_in_this_context(module.host_callbacks[int(index)]))
            module.add_keepalive(handle)
            return lower(ctx, *operands, index=type(index)(handle.number))

        return lower_callback

    return build_ffi_lowering_function


def _in_this_context(function):
    """jax's settings of the thread that lowers the program, for the agent's thread that runs its functions."""
    from jax._src import config

    states = [state for state in (getattr(config, name, None) for name in _CONTEXTS) if state is not None]
    wanted = [state.value for state in states]

    @functools.wraps(function)
    def run(*args):
        with contextlib.ExitStack() as stack:
            for state, value in zip(states, wanted):
                if state.value != value:
                    stack.enter_context(state(value))
            return function(*args)

    return run


def _compile_without_functions(compile_and_load):
    def backend_compile_and_load(backend, module, executable_devices, options, host_callbacks, *args, **kwargs):
        if _is_ours(backend):
            host_callbacks = ()  # the program names them by number
        return compile_and_load(backend, module, executable_devices, options, host_callbacks, *args, **kwargs)

    return backend_compile_and_load


def _local_devices(process_index=None, backend=None, host_id=None):
    from jax._src import xla_bridge

    if backend != "cpu" or not _is_ours(xla_bridge.get_backend("cpu")):
        return xla_bridge.local_devices(process_index, backend, host_id)
    return _local_client().devices()


def _local_client():
    from jax._src import xla_bridge

    global _local_cpu
    with _lock:
        if _local_cpu is None:
            # Outside of jax's table of backends: programs never find it, functions that programs call do.
            _local_cpu = xla_bridge.make_cpu_client()
    return _local_cpu


# ---- copies


def _copy_arrays(xc):
    """The wheel's client copies between its own devices only: what goes to another client's goes by the host."""

    def batched_copy_array_to_devices_with_sharding(arrays, devices, shardings, semantics):
        across = [
            i
            for i, (x, to) in enumerate(zip(arrays, devices))
            if len(to) and next(iter(x.sharding.device_set)).client is not to[0].client
        ]
        by_host = set(across)
        within = [i for i in range(len(arrays)) if i not in by_host]
        copies = [None] * len(arrays)
        if within:
            chosen = ([items[i] for i in within] for items in (arrays, devices, shardings, semantics))
            for i, copy in zip(within, xc.batched_copy_array_to_devices_with_sharding(*chosen)):
                copies[i] = copy
        for i in across:
            copies[i] = _copy_by_host(arrays[i], devices[i], shardings[i])
        return copies

    return batched_copy_array_to_devices_with_sharding


def _copy_by_host(x, devices, sharding):
    from jax._src.interpreters import pxla

    value = np.asarray(x)
    shards = [value[index] for index in sharding.addressable_devices_indices_map(x.shape).values()]
    return pxla.batched_device_put(x.aval, sharding, shards, list(devices))


# ---- names


class _BackendTable(dict):
    """jax's table of backends, where ours is found by the name that its devices report too. The first lookup of all has
    begun when jax loads plug-ins, so that no function put in its place would be called."""

    def get(self, name, default=None):
        ours = super().get("proxy")
        if name not in self and ours is not None and ours.platform == name:
            return ours
        return super().get(name, default)


def _backend_by_name(get_backend):
    def _get_backend_uncached(platform=None):
        from jax._src import xla_bridge

        name = platform or jax.config.read("jax_platform_name")  # as jax chooses
        if isinstance(name, str) and name not in ("", "proxy"):
            backends = xla_bridge.backends()
            ours = backends.get("proxy")
            if name not in backends and ours is not None and ours.platform == name:
                return ours
        return get_backend(platform)

    return _get_backend_uncached


def _register_once(register):
    def register_backend_factory(name, *args, **kwargs):
        from jax._src import xla_bridge

        # pathwaysutils.initialize() after the first use of a device: its backend is what is there already.
        if name == "proxy" and name in xla_bridge._backends:
            return None
        return register(name, *args, **kwargs)

    return register_backend_factory


# ---- memory


def _memory_stats(memory_stats):
    def stats(self):
        if not _is_ours(self.client):
            return memory_stats(self)
        memory = agent_of(self.client).memory().get(self.id)
        if memory is None:
            raise RuntimeError(f"{self} has lost its worker, which held its memory")
        answer = {
            "bytes_in_use": int(memory.get("bytesInUse", 0)),
            "peak_bytes_in_use": int(memory.get("peakBytesInUse", 0)),
        }
        limit = int(memory.get("bytesLimit", 0))
        return {**answer, "bytes_limit": limit} if limit else answer

    stats.__name__, stats.__doc__ = "memory_stats", memory_stats.__doc__
    return stats


# ---- compiled programs


def _warn_of_passes() -> None:
    try:
        from jax._src import xla_transform
    except ImportError:  # this jax has none
        return
    xla = xla_transform._xla

    def register_xla_transform_c_api(client, name, *args):
        if not _is_ours(client):
            return xla.register_xla_transform_c_api(client, name, *args)
        _log.warning(
            "the compiler pass %r runs for programs that this process compiles: those for the cluster's devices are compiled "
            "by its server, without the pass",
            name,
        )

    if xla is not None:
        xla_transform._xla = Overlay(xla, register_xla_transform_c_api=register_xla_transform_c_api)


def _hlo_modules(hlo_modules):
    from jax._src import lib

    parse = getattr(lib, "hlo", lib._jax).hlo_module_from_text  # jax 0.10.1 has no lib.hlo

    def modules(self):
        return [parse(self.get_hlo_text())] if _is_ours(self.client) else hlo_modules(self)

    modules.__name__, modules.__doc__ = "hlo_modules", hlo_modules.__doc__
    return modules
