"""Models that an extension brings.

- `providers`: extension models as providers of the agent
- `request`, `answer`, `stream`: what goes to the extension, what comes back, and piece by piece
- `logins`, `credentials`: signing in to a provider, and what is kept of that
"""
