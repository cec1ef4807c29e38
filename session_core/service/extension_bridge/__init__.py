"""The service as extensions see it: their actions become ordinary commands.

- `delegate`: `ServiceDelegate`, which turns the requests of an extension into commands
- `programs`: programs that extensions run, judged and sandboxed like a model's commands
"""
