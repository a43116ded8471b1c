"""Make sessions, name them, put them away, bring them back."""

from __future__ import annotations

import difflib
import json
import os.path
from pathlib import Path

import msgspec

from agents_view.acp.catalogue import load_catalogue
from agents_view.daemon.policy.deletion import plan, title_of
from agents_view.daemon.store import sessions as store
from agents_view.daemon.store import spawn_ledger
from agents_view.daemon.store.database import Transaction
from agents_view.daemon.store.sessions import Session
from agents_view.daemon.supervisor.context import Call, Daemon
from agents_view.daemon.supervisor.environments import may_be_stored, of_person
from agents_view.daemon.supervisor.lookup import queue_of, row_of, session_of
from agents_view.daemon.wire import Deliver, Refresh, Release, Start
from daemon_client.errors import DaemonError, ErrorCode
from daemon_client.protocol import commands as c
from daemon_client.protocol.commands import Environ
from daemon_client.protocol.replies import DeletePlan, Done, SessionReply
from daemon_client.text import clean

_LONGEST_NAME = 300
_STOPPED_BY_DELETE = "session deleted"
_STOPPED_BY_ARCHIVE = "session archived"


async def create(daemon: Daemon, call: Call, command: c.Create) -> SessionReply:
    """A root session. Its id is the request id, so that a repeat finds it instead of a second."""
    now = daemon.clock.now_ms()
    session = Session(
        session_id=call.request_id,
        agent=_known_agent(daemon, command.agent),
        cwd=_directory(command.cwd),
        store=str(daemon.paths.state_dir),
        root_id=call.request_id,
        parent_id=None,
        depth=0,
        created_at_ms=now,
        last_activity_at_ms=now,
        name=_name(command.name),
        draft=command.draft and not command.prompt and not command.name,
        first_message=_first_message(command.prompt),
        model=command.model,
        mode=command.mode,
        env_names=_env_names(command.environ),
        env_kept=_env_kept(command.environ),
    )
    daemon.environments.remember(session.session_id, command.environ)
    return await _begin(daemon, call, session, command.prompt)


async def spawn(daemon: Daemon, call: Call, command: c.Spawn) -> SessionReply:
    """A child. It has its parent's agent, directory and environment unless told otherwise."""
    parent_id = command.parent_id or call.caller.session_id
    if parent_id is None:
        raise DaemonError(ErrorCode.INVALID, "whose child? Name a parent")
    parent = session_of(daemon, parent_id)
    now = daemon.clock.now_ms()
    own = not call.caller.is_agent and bool(command.environ)
    session = Session(
        session_id=call.request_id,
        agent=_known_agent(daemon, command.agent or parent.agent),
        cwd=_directory(command.cwd or parent.cwd),
        store=parent.store,
        root_id=parent.root_id,
        parent_id=parent.session_id,
        depth=parent.depth + 1,
        created_at_ms=now,
        last_activity_at_ms=now,
        name=_name(command.name),
        first_message=_first_message(command.prompt),
        model=command.model,
        mode=command.mode,
        env_names=_env_names(command.environ) if own else parent.env_names,
        env_kept=_env_kept(command.environ) if own else parent.env_kept,
    )
    if own:
        daemon.environments.remember(session.session_id, command.environ)
    else:
        daemon.environments.inherit(session.session_id, parent.session_id)
    return await _begin(daemon, call, session, command.prompt)


async def _begin(daemon: Daemon, call: Call, session: Session, prompt: str | None) -> SessionReply:
    """Make it durable, show it, start it, and hand over its first prompt."""
    if prompt is not None:
        check_prompt(daemon, prompt)
    await daemon.db.write(lambda t: store.create(t, session))
    kept = await daemon.db.read(lambda t: store.get(t, session.session_id))
    if kept is not None and kept.deleted_at_ms is None:
        daemon.roster.put(kept)
    environ = daemon.environments.of(session.session_id)
    if prompt:
        order = Deliver(
            session_id=session.session_id,
            prompt_id=call.request_id,
            text=prompt,
            source="agent" if call.caller.is_agent else "person",
            environ=environ,
        )
    else:
        order = Start(session_id=session.session_id, environ=environ)
    await daemon.workers.order(session.root_id, order)
    return SessionReply(row=row_of(daemon, session.session_id))


def check_prompt(daemon: Daemon, text: str) -> None:
    """Refuse an empty or over-long prompt. Raises `DaemonError(invalid)`."""
    size, most = len(text.encode("utf-8", "replace")), daemon.settings.daemon.max_prompt
    if not text.strip():
        raise DaemonError(ErrorCode.INVALID, "the prompt is empty")
    if size > most:
        raise DaemonError(ErrorCode.INVALID, f"the prompt has {size} bytes; {most} are the most")


def _known_agent(daemon: Daemon, agent: str) -> str:
    """The catalogue's key. An agent that is not installed is fine: its row will say so."""
    catalogue = load_catalogue(daemon.settings.agents)
    if agent in catalogue.agents:
        return agent
    near = difflib.get_close_matches(agent, catalogue.agents, n=3)
    known = ", ".join(sorted(catalogue.agents))
    hint = f"did you mean {' or '.join(near)}?" if near else f"known are {known}"
    raise DaemonError(ErrorCode.INVALID, f"no agent {clean(agent, 80)!r}: {hint}")


def _directory(cwd: str) -> str:
    """An existing absolute directory. Raises `DaemonError(invalid)` that names it."""
    path = Path(cwd)
    if not path.is_absolute():
        raise DaemonError(ErrorCode.INVALID, f"not an absolute directory: {clean(cwd, 400)!r}")
    if not path.is_dir():
        raise DaemonError(ErrorCode.INVALID, f"no directory {clean(cwd, 400)!r}")
    return os.path.normpath(cwd)


def _name(name: str | None) -> str | None:
    """A name for people: bounded, not empty; what it contains is drawn harmlessly."""
    if name is None or not name.strip():
        return None
    if len(name) > _LONGEST_NAME:
        raise DaemonError(ErrorCode.INVALID, f"a name has at most {_LONGEST_NAME} characters")
    return name.strip()


def _first_message(prompt: str | None) -> str:
    return clean(prompt.strip(), 200) if prompt else ""


def _env_names(environ: Environ) -> str:
    """Which variables a person had, without their values (A9)."""
    return json.dumps(sorted(of_person(environ)))


def _env_kept(environ: Environ) -> str:
    """The few values that may be on disk."""
    return json.dumps(may_be_stored(of_person(environ)))


async def rename(daemon: Daemon, call: Call, command: c.Rename) -> Done:
    """Names are labels: two sessions may bear the same. Never moves the activity."""
    session = session_of(daemon, command.session_id)
    name = _name(command.name)
    now = daemon.clock.now_ms()
    await daemon.db.write(lambda t: store.rename(t, session.session_id, name, now))
    daemon.roster.put(msgspec.structs.replace(session, name=name, draft=False))
    await _refresh(daemon, session)
    return Done()


async def _refresh(daemon: Daemon, session: Session) -> None:
    """A worker that runs reads the changed row; one that does not will."""
    if daemon.workers.connected(session.root_id) is not None:
        await daemon.workers.order(session.root_id, Refresh(session_id=session.session_id))


async def archive(daemon: Daemon, call: Call, command: c.Archive) -> Done:
    """Put away with all descendants; what runs is stopped first."""
    session = session_of(daemon, command.session_id)
    if session.archived_at_ms is not None:
        return Done()
    victims = await _stop_below(daemon, session, _STOPPED_BY_ARCHIVE)
    now = daemon.clock.now_ms()
    fresh = [s for s in victims if s.archived_at_ms is None]
    ids = [s.session_id for s in fresh]
    await daemon.db.write(lambda t: store.set_archived(t, ids, now))
    daemon.roster.put(*(msgspec.structs.replace(s, archived_at_ms=now) for s in fresh))
    return Done()


async def preview(daemon: Daemon, call: Call, command: c.DeletePreview) -> DeletePlan:
    """What would go with it (R50)."""
    return await _plan(daemon, session_of(daemon, command.session_id))


async def _plan(daemon: Daemon, session: Session) -> DeletePlan:
    row = row_of(daemon, session.session_id)
    below = [row_of(daemon, key) for key in daemon.roster.below(session.session_id)]
    queued = await queue_of(daemon, session.session_id)
    return plan(row, below, queued, title_of(row))


async def delete(daemon: Daemon, call: Call, command: c.Delete) -> Done:
    """Trash with all descendants, if they are still what the person was shown (R51, R52).

    The working directory and its files are never touched.
    """
    session = session_of(daemon, command.session_id)
    if command.expected is not None:
        current = await _plan(daemon, session)
        if current.fingerprint != command.expected:
            raise DaemonError(ErrorCode.CONFLICT, "changed since you asked: look again")
    victims = await _stop_below(daemon, session, _STOPPED_BY_DELETE)
    ids = [s.session_id for s in victims]
    now = daemon.clock.now_ms()
    await daemon.db.write(lambda t: store.set_deleted(t, ids, now, now), cleanup=True)
    daemon.roster.remove(ids)
    for key in ids:
        daemon.session_streams.gone(key)
        daemon.environments.forget(key)
    return Done()


async def _stop_below(daemon: Daemon, session: Session, cause: str) -> list[Session]:
    """Stop the session and everything below it; returns all of them, the session first."""
    if session.parent_id is None:
        await daemon.workers.stop(session.root_id, cause, daemon.settings.daemon.stop_timeout)
    victims = [session_of(daemon, session.session_id)]
    victims += [session_of(daemon, key) for key in daemon.roster.below(session.session_id)]
    if session.parent_id is not None and daemon.workers.connected(session.root_id) is not None:
        for victim in reversed(victims):
            await daemon.workers.order(
                session.root_id,
                Release(session_id=victim.session_id),
                timeout=daemon.settings.daemon.stop_timeout,
            )
    return victims


async def restore(daemon: Daemon, call: Call, command: c.Restore) -> Done:
    """Bring back what one archive or delete took away: the session and whoever went with it."""
    wanted = command.session_id
    session = await daemon.db.read(lambda t: store.get(t, wanted))
    if session is None:
        raise DaemonError(ErrorCode.NOT_FOUND, f"no session {clean(wanted, 64)}")
    now = daemon.clock.now_ms()

    def bring_back(t: Transaction) -> list[Session]:
        ids = [wanted, *spawn_ledger.descendants(t, wanted)]
        family = [s for s in (store.get(t, key) for key in ids) if s is not None]
        if session.deleted_at_ms is not None:
            gone = [s.session_id for s in family if s.deleted_at_ms == session.deleted_at_ms]
            store.set_deleted(t, gone, None, now)
        else:
            away = [s.session_id for s in family if s.archived_at_ms == session.archived_at_ms]
            store.set_archived(t, away, None)
        return [s for s in (store.get(t, key) for key in ids) if s is not None]

    family = await daemon.db.write(bring_back)
    daemon.roster.put(*(s for s in family if s.deleted_at_ms is None))
    return Done()


async def purge(daemon: Daemon, call: Call, command: c.Purge) -> Done:
    """Remove a trashed session and its transcript for good."""
    wanted = command.session_id
    session = await daemon.db.read(lambda t: store.get(t, wanted))
    if session is None:
        raise DaemonError(ErrorCode.NOT_FOUND, f"no session {clean(wanted, 64)}")
    if session.deleted_at_ms is None:
        raise DaemonError(ErrorCode.CONFLICT, "not in the trash: delete it first")
    await remove_for_good(daemon, [wanted])
    return Done()


async def remove_for_good(daemon: Daemon, ids: list[str]) -> None:
    """Rows and transcripts of trashed sessions; retention calls it after their time as well.

    What could bring one back is `restore`: it reads the row removed here, so the row goes last.
    """
    for key in ids:
        daemon.transcript_path(key).unlink(missing_ok=True)
    await daemon.db.write(lambda t: store.purge(t, ids), cleanup=True)
