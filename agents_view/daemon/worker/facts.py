"""From the state of a session to what is said about it. Pure (A1: protocol events only)."""

from __future__ import annotations

from typing import Final

import msgspec

from agents_view.acp.schema import ConfigOption, SessionOpened
from agents_view.daemon.wire import Aside, SessionFacts
from daemon_client.protocol.replies import PendingRequest, QueuedPrompt, SessionChoices
from daemon_client.roster import SessionId, Turn, Waiting, WorkerState
from daemon_client.text import clean


class Work(msgspec.Struct, kw_only=True):
    """The turn under way, as far as the agent has shown it."""

    prompt_id: str = ""
    turn: Turn | None = None
    started_at_ms: int | None = None
    quiet_since_ms: int | None = None
    said_something: bool = False


class Counters(msgspec.Struct, kw_only=True):
    """What lasts longer than a turn."""

    last_activity_at_ms: int
    first_message: str
    message_count: int
    model: str | None
    mode: str | None

    def count_prompt(self, text: str, now_ms: int) -> None:
        """A prompt goes out."""
        self.message_count += 1
        self.first_message = self.first_message or clean(text, 200)
        self.last_activity_at_ms = max(self.last_activity_at_ms, now_ms)


class Situation(msgspec.Struct, kw_only=True, frozen=True):
    """What of a session is neither its turn nor its counters."""

    session_id: SessionId
    residence: WorkerState | None = None
    resident_since_ms: int | None = None
    agent_pid: int | None = None
    agent_start: int | None = None
    background: int = 0
    open_tools: int = 0
    tool_label: str | None = None
    queued: int = 0
    held: bool = False
    waiting: Waiting | None = None
    exit_cause: str | None = None
    recap: str | None = None


def facts_of(now: Situation, work: Work, counters: Counters) -> SessionFacts:
    """The facts as they are sent. Prompts that are held are not work (R5)."""
    resident = now.residence is not None
    return SessionFacts(
        session_id=now.session_id,
        resident=resident,
        worker_state=now.residence,
        resident_since_ms=now.resident_since_ms if resident else None,
        agent_pid=now.agent_pid,
        agent_start=now.agent_start,
        background=now.background,
        turn=work.turn,
        pending_tools=now.open_tools,
        tool_label=now.tool_label,
        queued=0 if now.held else now.queued,
        held=now.queued if now.held else 0,
        turn_started_at_ms=work.started_at_ms,
        quiet_since_ms=work.quiet_since_ms,
        waiting=now.waiting,
        exit_cause=now.exit_cause,
        model=counters.model,
        mode=counters.mode,
        last_activity_at_ms=counters.last_activity_at_ms,
        first_message=counters.first_message,
        message_count=counters.message_count,
        recap=now.recap,
    )


def aside_of(
    session_id: SessionId,
    queue: tuple[QueuedPrompt, ...],
    pending: tuple[PendingRequest, ...],
    choices: SessionChoices,
) -> Aside:
    """What stands beside the transcript, as much of it as fits one frame.

    The oldest request is always whole; those that do not fit follow when it is answered.
    """
    if _size(queue) > _QUEUE_BYTES:
        queue = tuple(
            msgspec.structs.replace(prompt, text=prompt.text[:_SHORT]) for prompt in queue
        )
    fitting, room = list(pending[:1]), _PENDING_BYTES - _size(pending[:1])
    for request in pending[1:]:
        room -= _size(request)
        if room < 0:
            break
        fitting.append(request)
    shown = SessionChoices(
        modes=choices.modes[:_MOST_CHOICES],
        models=choices.models[:_MOST_CHOICES],
        commands=choices.commands[:_MOST_CHOICES],
    )
    return Aside(session_id=session_id, queue=queue, pending=tuple(fitting), choices=shown)


_QUEUE_BYTES: Final = 200 << 10
_PENDING_BYTES: Final = 500 << 10
_MOST_CHOICES: Final = 200
_SHORT: Final = 400


def _size(value: object) -> int:
    return len(msgspec.msgpack.encode(value))


class Offer(msgspec.Struct, kw_only=True, frozen=True):
    """What an agent lets people choose, and how its model is set (A12: capabilities are read)."""

    choices: SessionChoices = SessionChoices()
    mode: str | None = None
    model: str | None = None
    model_option: str | None = None
    mode_option: str | None = None


def offer_of(opened: SessionOpened) -> Offer:
    """Modes and models from wherever this agent puts them: old objects or config options."""
    options = options_offer(opened.config_options or ())
    modes, models = opened.modes, opened.models
    return Offer(
        choices=SessionChoices(
            modes=_keys(modes.available_modes if modes else None) or options.choices.modes,
            models=_keys(models.available_models if models else None) or options.choices.models,
        ),
        mode=(modes.current_mode_id if modes else None) or options.mode,
        model=(models.current_model_id if models else None) or options.model,
        model_option=None if models else options.model_option,
        mode_option=None if modes else options.mode_option,
    )


def options_offer(options: tuple[ConfigOption, ...]) -> Offer:
    """The same from config options alone."""
    mode = next((o for o in options if "mode" in (o.category, o.id)), None)
    model = next((o for o in options if "model" in (o.category, o.id)), None)
    return Offer(
        choices=SessionChoices(
            modes=_keys(mode.choices() if mode else None),
            models=_keys(model.choices() if model else None),
        ),
        mode=str(mode.current_value) if mode and mode.current_value else None,
        model=str(model.current_value) if model and model.current_value else None,
        model_option=model.id if model else None,
        mode_option=mode.id if mode else None,
    )


def _keys(choices) -> tuple[str, ...]:
    return tuple(clean(choice.key, 120) for choice in choices or () if choice.key)
