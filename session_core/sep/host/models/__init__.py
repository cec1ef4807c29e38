"""Models of extensions.

- `providers`: extension models as providers of the agent
- `request`, `answer`, `stream`: the request to the extension, its answer, and the streaming in between
- `logins`, `credentials`: logging in to a provider, and the stored credentials
"""
