"""Where jax looks for plug-ins; the package does the work."""

from switchtower.plugin import initialize

__all__ = ["initialize"]
