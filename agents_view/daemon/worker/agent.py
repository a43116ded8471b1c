"""Start an agent for a session: launch, handshake, conversation, mode and model (A2, A8, A14)."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path

import msgspec

from agents_view.acp.catalogue import argv_of, load_catalogue
from agents_view.acp.client import AgentClient, AgentError, AgentEvents, Launch, launch
from agents_view.base.settings import AgentEntry, Settings
from agents_view.daemon.aftermath import SESSION_TAG
from agents_view.daemon.store.sessions import Session
from agents_view.daemon.worker.environment import agent_environment, missing_keys
from agents_view.daemon.worker.facts import Offer, offer_of
from daemon_client.connection import product_version
from daemon_client.protocol.commands import Environ


class Running(msgspec.Struct, kw_only=True):
    """An agent that can be prompted."""

    client: AgentClient
    entry: AgentEntry
    offer: Offer
    with_memory: bool = True


class Starting(msgspec.Struct, kw_only=True):
    """What a start needs to know."""

    session: Session
    person: Environ
    socket: str
    state: Path
    earlier: str | None
    """The agent's own id of the conversation so far, None for a new one."""


def entry_of(settings: Settings, agent: str) -> AgentEntry:
    """The catalogue's entry. Raises `AgentError`."""
    entry = load_catalogue(settings.agents).agents.get(agent)
    if entry is None:
        raise AgentError("start", f"no agent {agent!r} in the catalogue any more")
    return entry


async def start_agent(
    plan: Starting,
    settings: Settings,
    events: AgentEvents,
    launched: Callable[[AgentClient], None],
    opened: Callable[[AgentClient, str], Awaitable[None]],
) -> Running:
    """Bring the agent up. Raises `AgentError`; then nothing of it is left running.

    `launched` is told of the process at once; `opened` is awaited with the agent's own session id
    before anything is prompted (A8).
    """
    session = plan.session
    entry = entry_of(settings, session.agent)
    env = agent_environment(
        session_id=session.session_id,
        agent=session.agent,
        entry=entry,
        person=plan.person,
        kept=session.kept,
        socket=plan.socket,
        state=plan.state,
    )
    missing = missing_keys(entry, env, session.names)
    if missing:
        raise AgentError("start", f"{', '.join(missing)} missing", needs_login=True)
    client = await launch(
        Launch(
            argv=argv_of(session.agent, entry),
            cwd=session.cwd,
            env=env,
            hint=f"install it: {entry.install_hint}" if entry.install_hint else "",
            stderr_path=plan.state / "logs" / f"agent-{session.session_id[-8:]}.err",
        ),
        events,
        settings.agent,
    )
    launched(client)
    try:
        return await _converse(plan, entry, client, opened)
    except BaseException:
        await client.stop((SESSION_TAG, session.session_id))
        raise


async def _converse(
    plan: Starting,
    entry: AgentEntry,
    client: AgentClient,
    opened: Callable[[AgentClient, str], Awaitable[None]],
) -> Running:
    await client.initialize(product_version())
    back = await client.reopen(plan.earlier) if plan.earlier else None
    answer = back[1] if back else await client.new_session()
    await opened(client, client.session_id)
    offer = offer_of(answer)
    running = Running(
        client=client,
        entry=entry,
        offer=offer,
        with_memory=back is not None or plan.earlier is None,
    )
    session = plan.session
    if session.mode and session.mode != offer.mode and _offers(offer.choices.modes, session.mode):
        await set_mode(running, session.mode)
    if session.model and session.model != offer.model:
        await set_model(running, session.model)
    return running


def _offers(known: tuple[str, ...], wanted: str) -> bool:
    """An agent that lists nothing is asked all the same: it will say what it thinks of it."""
    return not known or wanted in known


async def set_mode(running: Running, mode: str) -> None:
    """Raises `AgentError`."""
    offer = running.offer
    if offer.mode_option is not None:
        await running.client.set_config_option(offer.mode_option, mode)
    else:
        await running.client.set_mode(mode)
    running.offer = msgspec.structs.replace(offer, mode=mode)


async def set_model(running: Running, model: str) -> None:
    """Raises `AgentError`."""
    offer = running.offer
    if offer.model_option is not None:
        await running.client.set_config_option(offer.model_option, model)
    else:
        await running.client.set_model(model)
    running.offer = msgspec.structs.replace(offer, model=model)
