"""Helpers for tests, for ours and for those of programs built on session-core.

- `checked`: `open_checked_service`: a service that proves the fold laws about everything that happened in it
- `check_store`, `check_protocol`: the conformance suites of stores and of protocols
- `cancel_sweep`: cancel an operation at each of its steps
- `scripted`: a provider and tools that do exactly what a test says

Nothing in the product imports this package.
"""
