"""The service as extensions reach it: their actions come in as ordinary commands.

- `delegate`: `ServiceDelegate`, which turns what an extension asks for into commands
- `programs`: programs that extensions run, judged and confined like commands of a model
"""
