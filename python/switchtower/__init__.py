"""The client's side of Switchtower. No script imports it: jax finds it as a plug-in.

  plugin       registers the "proxy" backend with jax
  agent        the second connection to the proxy: functions that programs call, memory statistics
  registry     which function has which number, and for how long
  jax_patches  the private parts of known jax versions that this needs, with
  partitioning, shardings, async_collectives, unreduced, lowered_costs, buffer_callbacks, dlpack
               one each for what the wheel, or the server's XLA, would refuse
"""

__version__ = "0.1.0"
