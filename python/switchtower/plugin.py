"""Registers the "proxy" backend, so that three environment variables are all that a jax script needs.

jax calls initialize() once, before it makes its first backend. A script that calls pathwaysutils.initialize()
registers the same backend itself; before or after, it makes no difference.
"""

import os


def initialize() -> None:
    import jax

    if "proxy" not in (jax.config.jax_platforms or "").split(","):
        return
    from jax._src import xla_bridge
    from jax.extend import backend

    from switchtower import jax_patches, quiet_client

    if "proxy" not in getattr(xla_bridge, "_backend_factories", {}):
        backend.register_backend_factory("proxy", _make_client, priority=-1)
    # Programs are compiled and cached by the server; a cache in the client would keep executables it can't read back.
    jax.config.update("jax_enable_compilation_cache", False)
    jax_patches.install()
    quiet_client.install()


def _make_client():
    import jax
    from jax.extend.backend import ifrt_proxy

    target = jax.config.read("jax_backend_target")
    if not target:
        raise RuntimeError(
            'JAX_PLATFORMS names "proxy", but JAX_BACKEND_TARGET is empty: set it to grpc://HOST:PORT of a Switchtower '
            "proxy (`switchtower up` prints it)"
        )
    options = ifrt_proxy.ClientConnectionOptions()
    timeout = os.environ.get("PATHWAYS_PROXY_CONNECTION_TIMEOUT_SECS")
    if timeout:
        options.connection_timeout_in_seconds = int(timeout)
    return ifrt_proxy.get_client(target, options)
