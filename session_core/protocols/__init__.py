"""How the model acts inside a turn: drivers, which decide, and never do anything themselves.

- `driver`: what a driver is: it gets a view of the turn and returns actions, in plain synchronous functions;
  `checked_actions` refuses what breaks the contract
- `standard`: native tool calling, the driver that every session uses unless told otherwise; it also sees to answers
  that must be JSON of a given shape

The interpreter of the actions is `session_core.agent.turn`: only it asks models, runs tools and records events. So a
driver can be tested with values alone, and one that misbehaves (raises, returns nonsense, passes over tool calls, goes
round in circles) fails its own turn with a reason, and nothing else.

To add one: a class with the five methods of `Driver`, given to `ServiceConfig.driver`.
"""
