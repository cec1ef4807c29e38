"""A whole agent out of a home and its folders.

- `setup`: `open_setup` for one folder, `open_home_setup` for any number of them
- `surroundings`: the home, the folder and the environment that an agent starts from
- `system_prompt`: what every model is told first
- `extension_setup`: the host of the user's extensions
- `extension_models`: models that an extension may bring once it runs
- `config_reload`: `follow_config`, which applies changes of the configuration to a running service
- `folders`: what each folder says: rules, defaults, MCP servers, extensions of the project
"""
