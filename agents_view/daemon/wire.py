"""What supervisor and worker say to each other, over the supervisor's socket (spec 07.1, 07.2).

Facts go up, orders go down. A worker dials, registers with everything it knows, and dials again
when the supervisor goes away: adoption after a restart is therefore nothing special.
"""

from __future__ import annotations

from typing import Literal

import msgspec

from daemon_client.protocol import (
    Closing,
    Hello,
    Message,
    Request,
    WireError,
)
from daemon_client.protocol.commands import Environ, ShutdownReason
from daemon_client.protocol.replies import PendingRequest, QueuedPrompt, SessionChoices
from daemon_client.protocol.transcript import TranscriptEntry
from daemon_client.roster import SessionId, Turn, Waiting, WorkerState

Source = Literal["person", "agent", "job"]


class SessionFacts(msgspec.Struct, kw_only=True, frozen=True, omit_defaults=True):
    """What a worker knows about one of its sessions; the supervisor adds what the store knows.

    `worker_state` is None while the session is not resident. `queued` counts prompts that will be
    sent without a person's doing; held ones (their agent failed to start) are not among them.
    """

    session_id: SessionId
    resident: bool = False
    worker_state: WorkerState | None = None
    resident_since_ms: int | None = None
    agent_pid: int | None = None
    agent_start: int | None = None
    background: int = 0
    turn: Turn | None = None
    pending_tools: int = 0
    tool_label: str | None = None
    shell_running: bool = False
    compacting: bool = False
    retrying: bool = False
    queued: int = 0
    held: int = 0
    action_label: str | None = None
    turn_started_at_ms: int | None = None
    quiet_since_ms: int | None = None
    waiting: Waiting | None = None
    exit_cause: str | None = None
    model: str | None = None
    mode: str | None = None
    last_activity_at_ms: int = 0
    first_message: str = ""
    message_count: int = 0
    recap: str | None = None


# --- up: worker → supervisor


class WorkerHello(Message, kw_only=True, frozen=True, tag="worker_hello"):
    """First frame of a worker: who it is, and full facts about all members of its tree."""

    protocol: int
    product: str
    root_id: SessionId
    epoch: int
    pid: int
    start: int
    boot_id: str
    facts: tuple[SessionFacts, ...] = ()


class Facts(Message, kw_only=True, frozen=True, tag="facts"):
    """Sessions whose facts changed, each whole."""

    sessions: tuple[SessionFacts, ...]


class Alive(Message, kw_only=True, frozen=True, tag="alive"):
    """Nothing to report, still here (R7)."""


class Event(Message, kw_only=True, frozen=True, tag="event"):
    """New transcript entries of a watched session, in order."""

    session_id: SessionId
    entries: tuple[TranscriptEntry, ...]


class Aside(Message, kw_only=True, frozen=True, tag="aside"):
    """What a session shows beside its transcript; sent whole whenever any of it changed."""

    session_id: SessionId
    queue: tuple[QueuedPrompt, ...] = ()
    pending: tuple[PendingRequest, ...] = ()
    choices: SessionChoices = SessionChoices()


class OrderDone(Message, kw_only=True, frozen=True, tag="order_done"):
    """The order was carried out; `position` is meant for `Deliver`."""

    order_id: int
    position: int = 0


class OrderFailed(Message, kw_only=True, frozen=True, tag="order_failed"):
    order_id: int
    error: WireError


class Bye(Message, kw_only=True, frozen=True, tag="bye"):
    """The worker ends on purpose: all its agents are gone, everything is written."""

    reason: str = ""


FromWorker = WorkerHello | Facts | Alive | Event | Aside | OrderDone | OrderFailed | Bye

FirstFrame = Hello | WorkerHello
"""What a connection may begin with."""

FromPeer = (
    Hello | Request | WorkerHello | Facts | Alive | Event | Aside | OrderDone | OrderFailed | Bye
)
"""Everything the supervisor's socket can receive."""


# --- down: supervisor → worker


class OrderBody(msgspec.Struct, kw_only=True, frozen=True, omit_defaults=True, tag_field="order"):
    """Base of all orders. The session's row is in the store before an order names it."""

    session_id: SessionId


class Start(OrderBody, kw_only=True, frozen=True, tag="start"):
    """Make the session resident; done when its agent starts. `retry` clears a failure."""

    environ: Environ = {}
    retry: bool = False


class Deliver(OrderBody, kw_only=True, frozen=True, tag="deliver"):
    """Accept a prompt durably, start the agent if needed; done when it is committed.

    Repeating it with the same `prompt_id` changes nothing. `steer` cancels the turn under way and
    puts the prompt first.
    """

    prompt_id: str
    text: str
    source: Source = "person"
    steer: bool = False
    environ: Environ = {}


class EditQueued(OrderBody, kw_only=True, frozen=True, tag="queue_edit"):
    prompt_id: str
    text: str | None = None


class Cancel(OrderBody, kw_only=True, frozen=True, tag="cancel"):
    """End the turn; done when it is over. `conflict` if none runs."""


class AnswerRequest(OrderBody, kw_only=True, frozen=True, tag="answer"):
    request_id: str
    option_id: str


class SetMode(OrderBody, kw_only=True, frozen=True, tag="set_mode"):
    mode: str


class SetModel(OrderBody, kw_only=True, frozen=True, tag="set_model"):
    model: str


class SetConfigOption(OrderBody, kw_only=True, frozen=True, tag="set_config_option"):
    option_id: str
    value: str


class Watch(OrderBody, kw_only=True, frozen=True, tag="watch"):
    """Begin or end `Event`s of the session; done when the transcript file is up to date."""

    on: bool


class Refresh(OrderBody, kw_only=True, frozen=True, tag="refresh"):
    """The session's row in the store changed, or a person attached with a newer environment."""

    environ: Environ = {}


class Release(OrderBody, kw_only=True, frozen=True, tag="release"):
    """End this session's agent only and forget the session (it was archived or deleted).

    Its queued prompts stay in the store for a restore.
    """


class StopTree(OrderBody, kw_only=True, frozen=True, tag="stop"):
    """End every agent of the tree (A15), say `Bye` and exit. `session_id` is the root.

    A turn under way is cut off and marked `interrupted` with this cause.
    """

    cause: str = "stopped"


AnyOrder = (
    Start | Deliver | EditQueued | Cancel | AnswerRequest | SetMode | SetModel | SetConfigOption
    | Watch | Refresh | Release | StopTree
)  # fmt: skip


class WorkerWelcome(Message, kw_only=True, frozen=True, tag="worker_welcome"):
    """The supervisor has taken the worker over."""

    generation: str


class Order(Message, kw_only=True, frozen=True, tag="order"):
    order_id: int
    body: AnyOrder


class SupervisorClosing(Message, kw_only=True, frozen=True, tag="supervisor_closing"):
    """`shutdown`: start no new supervisor (05.6). `restart`: dial again."""

    reason: ShutdownReason


ToWorker = WorkerWelcome | Order | SupervisorClosing | Closing


class WorkerArguments(msgspec.Struct, kw_only=True, frozen=True):
    """The command line of a worker, as a value."""

    state: str
    socket: str
    config: str
    root_id: SessionId
    epoch: int
    lock_fd: int = -1
    tied: bool = False
    """Tied to its supervisor (embedded): without it the worker stops instead of starting one."""
