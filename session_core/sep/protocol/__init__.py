"""What both sides of the extension protocol share: values and pure functions.

- `names`: hooks, events, kinds of dialogs, capabilities, error codes
- `manifest`: `extension.toml`
- `fields`: reads JSON fields strictly, with a message for each mistake
- `render_blocks`: what an extension may draw
- `translations`: session events as the events that extensions know
- `service_api`: `Delegate`, what the service does for extensions
"""
