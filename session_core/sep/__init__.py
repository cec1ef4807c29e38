"""SEP, the extension protocol: extensions are programs in any language that speak JSON-RPC over stdin and stdout.

- `protocol`: names, manifests and values that both sides share
- `host`: runs extensions for a service
- `sdk`: writing extensions in Python, with a host for their tests
- `scaffold`: new extensions from templates
- `conformance`: schemas of the protocol, and a runner that checks an extension in any language against them
"""
