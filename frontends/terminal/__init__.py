"""The terminal: `session-core` alone. Textual on asyncio, as a client of the service that runs in the background.

- `command`: opens it and says goodbye; `place`: finds or starts the service, or has one in this process
- `desk` with `older`: what it knows, folded from feeds; no widgets
- `blocks`: a conversation as pure values; `rendering`, `looks`: how they are drawn
- `inert`: foreign text made harmless; `colourless`: no colours for those who want none
- `app`: puts everything together; `base`, `wishes`, `parting`, `choosing`, `looking_back`: its parts; `doing`,
  `reading`: what they ask for
- `transcript` with `layout`: the conversation; `sidebar`, `family`, `status_line`, `welcome`: what is around it
- `composer` with `editing`, `composer_keys`, `pasting`, `completion`, `suggesting`, `popup`, `images`, `attaching`,
  `drafts`, `sending`, `prompt_history`, `recalling`: writing; `target`: where it goes
- `requests` with `questions`, `asked`, `settling`, `foreign` and more: being asked
- `queue_panel`, `plan_panel`, `widgets`, `notices`: what else there is to see; `cells`, `clock`: for all of them
- `slash`, `picker`, `pickers` and the screens: what people choose from

What comes in: snapshots and events of the service, keys, the mouse. What goes out: commands, and a picture.
"""
