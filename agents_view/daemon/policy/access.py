"""What a client may ask for: people everything, agents little (spec 07.3). Pure."""

from __future__ import annotations

from typing import Final

import msgspec

from daemon_client.protocol import AnyCommand
from daemon_client.protocol import commands as c


class Caller(msgspec.Struct, kw_only=True, frozen=True):
    """Who is at the other end, decided by its process and never by what it says of itself.

    An agent acts for `session_id`, a member of the tree `root_id`; a person has neither.
    """

    session_id: str | None = None
    root_id: str | None = None

    @property
    def is_agent(self) -> bool:
        return self.root_id is not None


PERSON: Final = Caller()

_AGENT_MAY: Final = (
    c.Ping,
    c.RosterSubscribe,
    c.Spawn,
    c.Prompt,
    c.Attach,
    c.Detach,
    c.Transcript,
)
"""`spawn, send, ls, show, log, wait` come down to these."""


def refusal(caller: Caller, command: AnyCommand, target_root: str | None) -> str | None:
    """Why this caller may not do that, in a sentence, or None.

    `target_root` is the tree of the session the command names, None if it names none or one that
    does not exist (then `not_found` will say so).
    """
    if not caller.is_agent:
        return None
    name = type(command).__name__.lower()
    if not isinstance(command, _AGENT_MAY):
        return f"{name} is for people; this command runs inside an agent"
    if target_root is not None and target_root != caller.root_id:
        return f"{name} of another tree; an agent may reach its own only"
    return None
