"""Start an agent for a session: launch, handshake, conversation, mode and model (A2, A8, A14)."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path

import msgspec

from agents_view.acp.catalogue import argv_of
from agents_view.acp.client import AgentClient, AgentError, AgentEvents, Launch, launch
from agents_view.base.settings import AgentEntry, AgentLimits
from agents_view.daemon.aftermath import SESSION_TAG
from agents_view.daemon.store.sessions import Session
from agents_view.daemon.worker.environment import agent_environment, missing_keys
from agents_view.daemon.worker.facts import Offer, offer_of
from daemon_client.connection import product_version
from daemon_client.protocol.commands import Environ


class Running(msgspec.Struct, kw_only=True):
    """An agent that can be prompted. `problems`: what it did not accept of its configuration."""

    client: AgentClient
    entry: AgentEntry
    offer: Offer
    with_memory: bool = True
    problems: tuple[str, ...] = ()


class Starting(msgspec.Struct, kw_only=True):
    """What a start needs to know."""

    session: Session
    entry: AgentEntry
    has_history: bool
    person: Environ
    socket: str
    state: Path
    earlier: str | None
    """The agent's own id of the conversation so far, None for a new one."""


def entry_of(catalogue: Mapping[str, AgentEntry], agent: str) -> AgentEntry:
    """The catalogue's entry. Raises `AgentError`."""
    entry = catalogue.get(agent)
    if entry is None:
        raise AgentError("start", f"no agent {agent!r} in the catalogue any more")
    return entry


async def start_agent(
    plan: Starting,
    limits: AgentLimits,
    events: AgentEvents,
    launched: Callable[[AgentClient], Awaitable[None]],
    opened: Callable[[AgentClient, str], Awaitable[None]],
) -> Running:
    """Bring the agent up. Raises `AgentError`; then nothing of it is left running.

    `launched` is awaited as soon as there is a process, `opened` with the agent's own session id
    before anything is prompted (A8).
    """
    client = await launch(_launch_of(plan), events, limits)
    try:
        await launched(client)
        return await _converse(plan, client, opened)
    except BaseException:
        await client.stop((SESSION_TAG, plan.session.session_id))
        raise


def _launch_of(plan: Starting) -> Launch:
    session, entry = plan.session, plan.entry
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
    return Launch(
        argv=argv_of(session.agent, entry),
        cwd=session.cwd,
        env=env,
        hint=f"install it: {entry.install_hint}" if entry.install_hint else "",
        stderr_path=plan.state / "logs" / f"agent-{session.session_id[-8:]}.err",
    )


async def _converse(
    plan: Starting,
    client: AgentClient,
    opened: Callable[[AgentClient, str], Awaitable[None]],
) -> Running:
    await client.initialize(product_version())
    back = await client.reopen(plan.earlier) if plan.earlier else None
    answer = back[1] if back else await client.new_session()
    await opened(client, client.session_id)
    running = Running(
        client=client,
        entry=plan.entry,
        offer=offer_of(answer),
        with_memory=back is not None or not (plan.earlier or plan.has_history),
    )
    await _configure(running, plan.session)
    return running


async def _configure(running: Running, session: Session) -> None:
    """The mode and the model it had. One it does not know any more is no reason not to start."""
    offer, problems = running.offer, list[str]()
    mode, model = session.mode, session.model
    if mode and mode != offer.mode and _offers(offer.choices.modes, mode):
        try:
            await set_mode(running, mode)
        except AgentError as error:
            problems.append(f"mode {mode} not set: {_refusal(running, error)}")
    if model and model != offer.model:
        try:
            await set_model(running, model)
        except AgentError as error:
            problems.append(f"model {model} not set: {_refusal(running, error)}")
    running.problems = tuple(problems)


def _refusal(running: Running, error: AgentError) -> str:
    """What it says against it. Raises the error itself if the agent is gone."""
    if running.client.child.exited.done():
        raise error
    return error.message


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
