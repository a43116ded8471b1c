"""From the state of a session to what is said about it. Pure (A1: protocol events only)."""

from __future__ import annotations

import msgspec

from agents_view.acp.schema import ConfigOption, SessionOpened
from agents_view.daemon.wire import SessionFacts
from daemon_client.protocol.replies import SessionChoices
from daemon_client.roster import Turn, Waiting, WorkerState
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


def facts_of(
    *,
    session_id: str,
    state: WorkerState | None,
    resident_since_ms: int | None,
    agent: tuple[int, int] | None,
    background: int,
    work: Work,
    open_tools: int,
    tool_label: str | None,
    queued: int,
    held: bool,
    waiting: Waiting | None,
    exit_cause: str | None,
    action_label: str | None,
    counters: Counters,
) -> SessionFacts:
    """The facts as they are sent. Prompts that are held are not work (R5)."""
    resident = state is not None
    return SessionFacts(
        session_id=session_id,
        resident=resident,
        worker_state=state,
        resident_since_ms=resident_since_ms if resident else None,
        agent_pid=agent[0] if agent else None,
        agent_start=agent[1] if agent else None,
        background=background,
        turn=work.turn,
        pending_tools=open_tools if work.turn else 0,
        tool_label=tool_label if work.turn else None,
        queued=0 if held else queued,
        held=queued if held else 0,
        action_label=action_label,
        turn_started_at_ms=work.started_at_ms,
        quiet_since_ms=work.quiet_since_ms,
        waiting=waiting,
        exit_cause=exit_cause,
        model=counters.model,
        mode=counters.mode,
        last_activity_at_ms=counters.last_activity_at_ms,
        first_message=counters.first_message,
        message_count=counters.message_count,
    )


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
