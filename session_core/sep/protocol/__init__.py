"""What both sides of the extension protocol share. Values and pure functions.

- `names`: hooks, events, kinds of dialogs, capabilities, error codes
- `manifest`: `extension.toml`
- `fields`: reading fields of JSON strictly, with a sentence for each mistake
- `render_blocks`: what an extension may draw
- `translations`: from session events to the events that extensions know
- `service_api`: `Delegate`: what the service does for extensions
"""
