"""Test utilities, for our own tests and for programs built on session-core.

- `checked`: `open_checked_service`: a service that checks the fold laws on everything that happened in it
- `check_store`: the conformance suite of stores (parts: `check_store_leaves`, `check_store_messages`,
  `check_store_states`, `check_store_values`, `check_store_world`, `check_store_writes`)
- `check_protocol`: the conformance suite of protocols (parts: `check_protocol_code`, `check_protocol_turns`,
  `check_protocol_values`, `check_protocol_world`; `driver_protocol` wraps a bare driver)
- `cancel_sweep`: cancels an operation at each of its steps
- `scripted`: a provider and tools that do exactly what a test says

Nothing in the product imports this package.
"""
