"""What the daemon answers, and what it sends by itself (spec 07.2)."""

from __future__ import annotations

import msgspec

from daemon_client.protocol.base import Message
from daemon_client.protocol.commands import ShutdownReason
from daemon_client.protocol.transcript import TranscriptEntry
from daemon_client.roster import RosterRow, SessionId


class Result(msgspec.Struct, kw_only=True, frozen=True, omit_defaults=True, tag_field="result"):
    """Base of all results."""


class Done(Result, kw_only=True, frozen=True, tag="done"):
    """Confirmed, not merely sent."""


class SessionReply(Result, kw_only=True, frozen=True, tag="session"):
    """The session as the roster has it now."""

    row: RosterRow


class PromptAccepted(Result, kw_only=True, frozen=True, tag="prompt_accepted"):
    """The prompt is durable. `position` 0 means it is next."""

    session_id: SessionId
    prompt_id: str
    position: int = 0


class WorkerStatus(msgspec.Struct, kw_only=True, frozen=True, omit_defaults=True):
    pid: int | None
    root_id: SessionId
    state: str
    since_ms: int


class Counter(msgspec.Struct, kw_only=True, frozen=True):
    name: str
    value: int


class DaemonStatus(Result, kw_only=True, frozen=True, tag="status"):
    """`daemon status` (spec 07.5, 09). Memory is resident bytes of the supervisor."""

    pid: int
    version: str
    protocol: int
    uptime_ms: int
    socket: str
    clients: int
    sessions: int
    memory: int = 0
    next_wake_at_ms: int | None = None
    embedded: bool = False
    recording: str = ""
    workers: tuple[WorkerStatus, ...] = ()
    counters: tuple[Counter, ...] = ()


class AgentInfo(msgspec.Struct, kw_only=True, frozen=True, omit_defaults=True):
    """One agent of the catalogue: `hint` says how to get it when it is not found."""

    id: str
    name: str
    found: bool
    command: str
    version: str | None = None
    hint: str = ""


class AgentsFound(Result, kw_only=True, frozen=True, tag="agents"):
    agents: tuple[AgentInfo, ...]
    problems: tuple[str, ...] = ()


class Evidence(msgspec.Struct, kw_only=True, frozen=True, omit_defaults=True):
    """One fact behind a section: its value, age in ms (None: always true now) and source."""

    fact: str
    value: str
    age_ms: int | None = None
    source: str = ""


class Explanation(Result, kw_only=True, frozen=True, tag="explanation"):
    session_id: SessionId
    section: str
    label: str
    evidence: tuple[Evidence, ...] = ()


class DeletePlan(Result, kw_only=True, frozen=True, tag="delete_plan"):
    """What goes with a session (R50). `fingerprint` changes with any of it."""

    session_id: SessionId
    title: str
    agent: str
    cwd: str
    working: bool
    subagents: int = 0
    subagents_working: tuple[str, ...] = ()
    queued: tuple[str, ...] = ()
    background: int = 0
    fingerprint: str = ""


class PermissionOption(msgspec.Struct, kw_only=True, frozen=True, omit_defaults=True):
    """An offered answer; `kind` is allow_once, allow_always, reject_once or reject_always."""

    id: str
    kind: str
    name: str


class PendingRequest(msgspec.Struct, kw_only=True, frozen=True, omit_defaults=True):
    """Something that waits for a person; `command` is the whole text to be allowed."""

    session_id: SessionId
    request_id: str
    kind: str
    text: str
    since_ms: int
    command: str = ""
    options: tuple[PermissionOption, ...] = ()


class PendingRequests(Result, kw_only=True, frozen=True, tag="pending"):
    requests: tuple[PendingRequest, ...] = ()


class QueuedPrompt(msgspec.Struct, kw_only=True, frozen=True, omit_defaults=True):
    prompt_id: str
    text: str
    source: str = "person"
    held: bool = False


class SessionChoices(msgspec.Struct, kw_only=True, frozen=True, omit_defaults=True):
    """What the agent offers: modes, models, slash commands (ids)."""

    modes: tuple[str, ...] = ()
    models: tuple[str, ...] = ()
    commands: tuple[str, ...] = ()


class Attached(Result, kw_only=True, frozen=True, tag="attached"):
    """The stream begins; `before` is where an older page would end (None: all was sent)."""

    session_id: SessionId
    before: int | None = None


class TranscriptPage(Result, kw_only=True, frozen=True, tag="transcript"):
    """Entries oldest first; `before` pages further back (None: this is the beginning)."""

    session_id: SessionId
    entries: tuple[TranscriptEntry, ...] = ()
    before: int | None = None


AnyResult = (
    Done | SessionReply | PromptAccepted | DaemonStatus | AgentsFound | Explanation | DeletePlan
    | PendingRequests | Attached | TranscriptPage
)  # fmt: skip


class Reply(Message, kw_only=True, frozen=True, tag="reply"):
    request_id: str
    result: AnyResult


# --- sent by the daemon on its own


class RosterBegin(Message, kw_only=True, frozen=True, tag="roster_begin"):
    """A snapshot of `rows` rows follows."""

    generation: str
    rows: int


class RosterChunk(Message, kw_only=True, frozen=True, tag="roster_chunk"):
    rows: tuple[RosterRow, ...]


class RosterEnd(Message, kw_only=True, frozen=True, tag="roster_end"):
    sequence: int


class RosterDelta(Message, kw_only=True, frozen=True, tag="roster_delta"):
    """What changed up to `sequence`; `more`: further parts of the same sequence follow."""

    sequence: int
    more: bool = False
    upserts: tuple[RosterRow, ...] = ()
    removals: tuple[SessionId, ...] = ()


class SessionChunk(Message, kw_only=True, frozen=True, tag="session_chunk"):
    """Transcript entries of an attached session, oldest first; a `seq` seen before is a repeat.

    `replay` marks the tail sent on attaching, `last` its end; `lost` says that this client was too
    slow and the stream has ended: attach again.
    """

    session_id: SessionId
    entries: tuple[TranscriptEntry, ...]
    replay: bool = False
    last: bool = False
    lost: bool = False


class SessionState(Message, kw_only=True, frozen=True, tag="session_state"):
    """What an attached session shows beside its transcript: queue, requests, choices."""

    session_id: SessionId
    queue: tuple[QueuedPrompt, ...] = ()
    pending: tuple[PendingRequest, ...] = ()
    choices: SessionChoices = SessionChoices()


class SessionGone(Message, kw_only=True, frozen=True, tag="session_gone"):
    """The attached session was deleted; its stream ends."""

    session_id: SessionId


class Recording(Message, kw_only=True, frozen=True, tag="recording"):
    """The store cannot be written (why), or can again (empty): a banner on every board (07.4)."""

    text: str


class DaemonClosing(Message, kw_only=True, frozen=True, tag="daemon_closing"):
    reason: ShutdownReason
