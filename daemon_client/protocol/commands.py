"""What a client may ask for: one Struct per command (spec 07.2).

Every request carries a UUIDv7 `request_id`, which is the idempotency key: sending it again after
a lost connection returns the first outcome and runs nothing twice.
"""

from __future__ import annotations

from typing import Literal

import msgspec

from daemon_client.protocol.base import Message
from daemon_client.roster import RosterPosition, SessionId

Environ = dict[str, str]
"""The environment of the person's client: what an agent of theirs should see (A9)."""


class Command(msgspec.Struct, kw_only=True, frozen=True, omit_defaults=True, tag_field="command"):
    """Base of all commands."""


# --- the daemon itself


class Ping(Command, kw_only=True, frozen=True, tag="ping"):
    """Answers `Done`: the control plane is alive."""


class Status(Command, kw_only=True, frozen=True, tag="status"):
    """Answers `DaemonStatus`."""


class Shutdown(Command, kw_only=True, frozen=True, tag="shutdown"):
    """Put every tree to sleep and end (S50). `restart` leaves the workers running (05.7).

    Refused with `busy`, naming the turns, while one runs and `force` is not set.
    """

    force: bool = False
    restart: bool = False


class AgentsList(Command, kw_only=True, frozen=True, tag="agents_list"):
    """Answers `AgentsFound`; `probe` asks each found program for its version too."""

    probe: bool = False


# --- the roster


class RosterSubscribe(Command, kw_only=True, frozen=True, tag="roster_subscribe"):
    """Answers `Done`; then the snapshot, or the deltas missing since `position`, then deltas."""

    position: RosterPosition | None = None


class Seen(Command, kw_only=True, frozen=True, tag="seen"):
    """A person looked at the session: clears `unread` (R16)."""

    session_id: SessionId


class Explain(Command, kw_only=True, frozen=True, tag="explain"):
    """Answers `Explanation`: why this section and label."""

    session_id: SessionId


# --- sessions


class Create(Command, kw_only=True, frozen=True, tag="create"):
    """A new session; its id is the request id. Answers `SessionReply` once it is durable."""

    agent: str
    cwd: str
    name: str | None = None
    prompt: str | None = None
    mode: str | None = None
    model: str | None = None
    draft: bool = False
    environ: Environ = {}


class Spawn(Command, kw_only=True, frozen=True, tag="spawn"):
    """A child session. Without `parent_id` the parent is the calling agent's own session."""

    agent: str | None = None
    cwd: str | None = None
    name: str | None = None
    prompt: str | None = None
    mode: str | None = None
    model: str | None = None
    parent_id: SessionId | None = None
    environ: Environ = {}


class Rename(Command, kw_only=True, frozen=True, tag="rename"):
    session_id: SessionId
    name: str


class Archive(Command, kw_only=True, frozen=True, tag="archive"):
    """Put away: jobs are disarmed, a tree that runs is stopped first. Children go along."""

    session_id: SessionId


class Restore(Command, kw_only=True, frozen=True, tag="restore"):
    """Bring back what was archived or deleted, as it was (R52)."""

    session_id: SessionId


class Delete(Command, kw_only=True, frozen=True, tag="delete"):
    """Archive and trash, children included. Working sessions are stopped first, bounded.

    `expected` is what the person was shown (`DeletePlan.fingerprint`): if the facts changed since,
    nothing is done and the answer is `conflict` (R51). None skips that check.
    """

    session_id: SessionId
    expected: str | None = None


class Purge(Command, kw_only=True, frozen=True, tag="purge"):
    """Remove a deleted session for good. Its working directory is never touched."""

    session_id: SessionId


class DeletePreview(Command, kw_only=True, frozen=True, tag="delete_preview"):
    """Answers `DeletePlan`: what would go with it (R50)."""

    session_id: SessionId


class Stop(Command, kw_only=True, frozen=True, tag="stop"):
    """End the worker of the session's tree; nothing is lost, a prompt brings it back."""

    session_id: SessionId


class Wake(Command, kw_only=True, frozen=True, tag="wake"):
    """Make the session resident without prompting it."""

    session_id: SessionId
    environ: Environ = {}


class RetryWorker(Command, kw_only=True, frozen=True, tag="retry_worker"):
    """Start a failed worker or agent again; prompts that were held go out."""

    session_id: SessionId
    environ: Environ = {}


# --- conversation


class Prompt(Command, kw_only=True, frozen=True, tag="prompt"):
    """Answers `PromptAccepted` once the prompt is durable; its id is the request id."""

    session_id: SessionId
    text: str
    steer: bool = False
    environ: Environ = {}


class CancelTurn(Command, kw_only=True, frozen=True, tag="cancel_turn"):
    """Answers `Done` when the turn is over; `conflict` if none runs."""

    session_id: SessionId


class QueueEdit(Command, kw_only=True, frozen=True, tag="queue_edit"):
    """Change the text of a queued prompt, or remove it (`text` None)."""

    session_id: SessionId
    prompt_id: str
    text: str | None = None


class Answer(Command, kw_only=True, frozen=True, tag="answer"):
    """Answer a pending request. A second answer is `conflict: already answered`."""

    session_id: SessionId
    waiting_id: str
    option_id: str


class Pending(Command, kw_only=True, frozen=True, tag="pending"):
    """Answers `PendingRequests` of one session, or of all."""

    session_id: SessionId | None = None


class SetMode(Command, kw_only=True, frozen=True, tag="set_mode"):
    session_id: SessionId
    mode: str


class SetModel(Command, kw_only=True, frozen=True, tag="set_model"):
    session_id: SessionId
    model: str


class SetConfigOption(Command, kw_only=True, frozen=True, tag="set_config_option"):
    session_id: SessionId
    option_id: str
    value: str


class Attach(Command, kw_only=True, frozen=True, tag="attach"):
    """Follow a session: answers `Attached`, then `SessionChunk`s of the tail, then live events."""

    session_id: SessionId
    tail: int = 200
    environ: Environ = {}


class Detach(Command, kw_only=True, frozen=True, tag="detach"):
    session_id: SessionId


class Transcript(Command, kw_only=True, frozen=True, tag="transcript"):
    """Answers `TranscriptPage`: at most `limit` entries that end before byte `before` (the end)."""

    session_id: SessionId
    before: int | None = None
    limit: int = 200


AnyCommand = (
    Ping | Status | Shutdown | AgentsList | RosterSubscribe | Seen | Explain
    | Create | Spawn | Rename | Archive | Restore | Delete | Purge | DeletePreview
    | Stop | Wake | RetryWorker
    | Prompt | CancelTurn | QueueEdit | Answer | Pending
    | SetMode | SetModel | SetConfigOption | Attach | Detach | Transcript
)  # fmt: skip


class Request(Message, kw_only=True, frozen=True, tag="request"):
    """A command with its idempotency key."""

    request_id: str
    body: AnyCommand


ShutdownReason = Literal["shutdown", "restart", "upgrade"]
