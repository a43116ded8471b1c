"""How an agent is ended so that nothing of it stays (A7, A15)."""

from __future__ import annotations

import asyncio
import os
import signal
from typing import Final

import msgspec

from agents_view.base import processes, proctable
from agents_view.base.child import Child
from agents_view.base.processes import Identity, Protected, is_protected

_ROUNDS: Final = 3
_STRAGGLERS: Final = 1.0
"""Seconds for the rest of a group whose leader left politely."""


class StopReport(msgspec.Struct, kw_only=True, frozen=True):
    """How a stop went: the leader's exit code, what had to be swept, and whether all is gone."""

    exit_code: int | None
    swept: tuple[Identity, ...] = ()
    complete: bool = True


async def stop_child(
    child: Child,
    step: float,
    tag: tuple[str, str] | None = None,
    protected: Protected = is_protected,
) -> StopReport:
    """End an agent with all it started (A15): end of input, TERM, KILL, then the sweep.

    Each step waits at most `step` seconds. The descendant tree is recorded before each of them,
    since real agents run their tools in sessions of their own; what carries `tag` in its
    environment is found even if it was orphaned. What `protected` names is never signalled, nor
    is anything below it. Every descriptor is closed in the end, even if this is cancelled.
    """
    sweep = _Sweep(child, tag, protected)
    try:
        await sweep.look()
        child.close_stdin()
        await child.wait(step)
        await sweep.group_gone(min(step, _STRAGGLERS))
        for number in (signal.SIGTERM, signal.SIGKILL):
            await sweep.look()
            if not sweep.group():
                break
            sweep.signal_group(number)
            await sweep.group_gone(step)
        swept, complete = await sweep.rest(step)
        code = await child.wait(0)
    finally:
        await child.release()
    return StopReport(exit_code=code, swept=swept, complete=complete and code is not None)


class _Sweep:
    """What belongs to an agent, as far as it was seen at any time."""

    def __init__(self, child: Child, tag: tuple[str, str] | None, protected: Protected) -> None:
        self._child = child
        self._tag = tag
        self._protected = protected
        self._seen: set[Identity] = set()

    async def look(self) -> None:
        """Record what is there now."""
        self._seen |= await asyncio.to_thread(self._found)

    def _found(self) -> set[Identity]:
        leader = self._child.identity
        table = proctable.read_table()
        known = {one for one in (leader, *self._seen) if _living(table, one)}
        if self._tag is not None:
            known.update(self._mine(processes.tagged(*self._tag)))
        known.update(self._mine(_orphans_of_session(table, leader)))
        below = proctable.below(table, (one.pid for one in known), self._protected)
        return (known | {entry.identity for entry in below}) - {leader}

    def _mine(self, found: list[Identity]) -> list[Identity]:
        return [one for one in found if not self._protected(one)]

    def group(self) -> list[Identity]:
        """The living members of the agent's process group, the leader first."""
        members = [one for one in (self._child.identity, *self._seen) if processes.is_alive(one)]
        return [one for one in members if processes.group_of(one.pid) == self._child.pid]

    def signal_group(self, number: int) -> None:
        """The whole group at once if its leader vouches for it, else its members one by one."""
        if self._group_is_safe() and processes.signal_group(self._child.identity, number):
            return
        for one in self.group():
            processes.signal(one, number)

    def _group_is_safe(self) -> bool:
        return not any(
            entry.group == self._child.pid and self._protected(entry.identity)
            for entry in proctable.read_table().values()
        )

    async def group_gone(self, patience: float) -> None:
        """Wait until the group is empty, at most `patience` seconds."""
        others = [one for one in self.group() if one != self._child.identity]
        waits = (processes.wait_exit(one, patience) for one in others)
        await asyncio.gather(self._child.wait(patience), *waits)

    async def rest(self, patience: float) -> tuple[tuple[Identity, ...], bool]:
        """End what left the group, and what that starts meanwhile, a bounded number of times."""
        swept: dict[Identity, None] = {}
        for _ in range(_ROUNDS):
            await self.look()
            left = [one for one in self._seen if processes.is_alive(one)]
            if not left:
                break
            swept.update(dict.fromkeys(left))
            await processes.end_all(left, patience, self._protected)
        for one in self._seen:
            _reap_adopted(one)
        return tuple(swept), not any(processes.is_alive(one) for one in self._seen)


def _living(table: proctable.Table, identity: Identity) -> bool:
    entry = table.get(identity.pid)
    return entry is not None and not entry.zombie and entry.identity == identity


def _orphans_of_session(table: proctable.Table, leader: Identity) -> list[Identity]:
    """Processes of the agent's session that were adopted by us: its leader has gone already."""
    me = os.getpid()
    return [
        entry.identity
        for entry in table.values()
        if entry.session == leader.pid
        and entry.parent == me
        and not entry.zombie
        and entry.start >= leader.start
    ]


def _reap_adopted(identity: Identity) -> None:
    """An orphan that ended is our child, and ours to collect."""
    entry = proctable.entry_of(identity.pid)
    if entry and entry.zombie and entry.identity == identity and entry.parent == os.getpid():
        processes.reap(identity.pid)
