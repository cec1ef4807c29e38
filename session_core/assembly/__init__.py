"""Assembly of a whole agent from a home and its folders.

- `setup`: `open_setup`, for sessions of any number of folders
- `surroundings`: the home, the folder and the environment that an agent starts from
- `system_prompt`: the system prompt of every model
- `extension_setup`: the hosts of extensions, for the user's own and for those of a folder
- `extension_models`: models that an extension may provide once it runs
- `config_reload`: `follow_config`, which applies configuration changes to a running service
- `folders`: the settings of each folder: rules, defaults, MCP servers, extensions of the project
"""
