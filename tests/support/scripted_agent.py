"""An ACP agent that misbehaves on demand: `python -m tests.support.scripted_agent WORD…`.

Raw newline-delimited JSON, since the SDK is too polite for most of this. Words on the command line
say how it starts and what it is like; a prompt says what its turn does.

Words: `banner` noise before the protocol · `hang-initialize`, `hang-new` never answer that ·
`exit-at-once` five lines on stderr, code 7 · `deaf` a cancel changes nothing · `stubborn` ignores
end of input and TERM · `load` can load · `load-fails` says it can, then refuses ·
`resume-missing` advertises resume, answers -32601 · `resume` can resume · `replay=N` N updates on
load · `auth` session/new answers -32000 · `commands` offers one right behind the answer to
session/new · `string-ids` answers with the id as text · `flood` 300 KB of stderr at once ·
`log=FILE` every line received is appended to it · `db=FILE` the store `stored` looks into.

A prompt is steps separated by `;`, carried out in order, then `end_turn` (`cancelled` after a
cancel): `say T` · `think T` · `tool ID KIND` opens a tool, `done ID` closes it (else it stays
open) · `ask KIND` a permission for a tool nobody heard of, two always options first; the answer is
said · `late T` said 0.1 s after the turn ended · `unknown` updates of kinds nobody knows ·
`chunk N` N bytes in one message · `line N` one line of N bytes · `utf8` invalid bytes, in a message
and alone · `odd` lines that are JSON and no messages · `meta` a message whose `_meta` names another
session · `wrong` fields of wrong types · `hostile` terminal escapes, bidi, markup · `exit N` ends
here · `exit-after N` ends after the answer · `setsid` leaves `sleep` in a session of its own ·
`hold` waits for a cancel · `slow N` N messages, 10 ms apart · `stderr N` N bytes · `env NAME` says
its value · `error CODE T` answers with an error · `stored` says whether its id is in the store.
"""

from __future__ import annotations

import json
import os
import signal
import sqlite3
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

HOSTILE = (
    "\x1b]52;c;ZXZpbA==\x07\x1b[6n\x1b[2J\x9b31m\x85\u202egnp.exe\u2066\x00\x08"
    "[bold red]markup[/] [link=file:///etc/passwd]x[/link] $(id)"
)
ALWAYS_FIRST = (
    {"optionId": "forever", "name": "Always for this tool", "kind": "allow_always"},
    {"optionId": "project", "name": "Always in this project", "kind": "allow_always"},
    {"optionId": "just-once", "name": "Allow", "kind": "allow_once"},
    {"optionId": "nope", "name": "Reject", "kind": "reject_once"},
)


class Refusal(Exception):
    """Ends a turn with a JSON-RPC error."""


class Wire:
    """Writes whole lines; hands answers to whoever asked."""

    def __init__(self, words: dict[str, str]) -> None:
        self._lock = threading.Lock()
        self._text_ids = "string-ids" in words
        self._answers: dict[str, list[Any]] = {}
        self._answered = threading.Condition()
        self._asked = 0

    def raw(self, data: bytes) -> None:
        with self._lock:
            view = memoryview(data)
            while view:
                view = view[os.write(1, view) :]

    def send(self, **message: Any) -> None:
        self.raw(json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n")

    def reply(self, identifier: Any, result: Any) -> None:
        self.send(id=str(identifier) if self._text_ids else identifier, result=result)

    def fail(self, identifier: Any, code: int, message: str) -> None:
        self.send(id=identifier, error={"code": code, "message": message})

    def ask(self, method: str, params: Any) -> Any:
        """A request of ours; waits for ever, as real agents do."""
        self._asked += 1
        key = f"ask-{self._asked}"
        self.send(id=key, method=method, params=params)
        with self._answered:
            self._answered.wait_for(lambda: key in self._answers)
        return self._answers[key][0]

    def answered(self, message: Any) -> None:
        with self._answered:
            self._answers[message.get("id")] = [message.get("result")]
            self._answered.notify_all()


class Turn:
    """One prompt being carried out, in a thread of its own."""

    def __init__(self, wire: Wire, words: dict[str, str], session: str) -> None:
        self.wire = wire
        self.words = words
        self.session = session
        self.cancelled = threading.Event()
        self.afterwards: list[Callable[[], None]] = []

    def run(self, identifier: Any, text: str) -> None:
        try:
            for step in text.split(";"):
                name, _, rest = step.strip().partition(" ")
                if name and not self.cancelled.is_set():
                    getattr(self, "do_" + name.replace("-", "_"), self.do_nothing)(rest)
        except Refusal as error:
            self.wire.fail(identifier, *error.args)
            return
        stop = "cancelled" if self.cancelled.is_set() else "end_turn"
        self.wire.reply(identifier, {"stopReason": stop})
        for action in self.afterwards:
            action()

    def update(self, kind: str, /, **fields: Any) -> None:
        params = {"sessionId": self.session, "update": {"sessionUpdate": kind, **fields}}
        self.wire.send(method="session/update", params=params)

    def do_nothing(self, rest: str) -> None:
        """A word that means nothing: an ordinary prompt."""

    def do_say(self, rest: str) -> None:
        self.update("agent_message_chunk", content={"type": "text", "text": rest})

    def do_think(self, rest: str) -> None:
        self.update("agent_thought_chunk", content={"type": "text", "text": rest})

    def do_tool(self, rest: str) -> None:
        key, _, kind = rest.partition(" ")
        call = {"toolCallId": key, "title": f"tool {key}", "status": "in_progress"}
        self.update("tool_call", kind=kind or "execute", **call)

    def do_done(self, rest: str) -> None:
        self.update("tool_call_update", toolCallId=rest, status="completed")

    def do_ask(self, rest: str) -> None:
        call = {"toolCallId": f"asked-{rest}", "title": f"{rest} a file", "kind": rest or "read"}
        asked = {"sessionId": self.session, "toolCall": call, "options": ALWAYS_FIRST}
        outcome = (self.wire.ask("session/request_permission", asked) or {}).get("outcome", {})
        self.do_say(f"answer: {outcome.get('optionId') or outcome.get('outcome')}")

    def do_late(self, rest: str) -> None:
        def later() -> None:
            time.sleep(0.1)
            self.do_say(rest)
            self.do_tool("late-tool")

        self.afterwards.append(later)

    def do_unknown(self, rest: str) -> None:
        self.update("brand_new_kind", payload={"deep": [1, {"x": None}]})
        self.update("usage_update", used=5, size=10)

    def do_chunk(self, rest: str) -> None:
        self.do_say("x" * int(rest))

    def do_line(self, rest: str) -> None:
        for _ in range(int(rest) >> 20):
            self.wire.raw(b"x" * (1 << 20))
        self.wire.raw(b"\n")

    def do_utf8(self, rest: str) -> None:
        content = b'{"type":"text","text":"bad \xff\xfe bytes"}'
        head = b'{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"s","update":'
        update = b'{"sessionUpdate":"agent_message_chunk","content":' + content + b"}"
        self.wire.raw(head + update + b"}}\n\xc3\x28 alone \xa0\xa1\n")

    def do_odd(self, rest: str) -> None:
        self.wire.raw(
            b'null\n42\n[1]\n"hi"\n{}\n{"jsonrpc":"2.0"}\n' + b"[" * 5000 + b"\n\n{half\n"
        )

    def do_meta(self, rest: str) -> None:
        params = {
            "sessionId": self.session,
            "_meta": {"session_id": "OTHER", "sessionId": "OTHER", "update": 3},
            "update": {
                "sessionUpdate": "agent_message_chunk",
                "content": {"type": "text", "text": rest},
                "_meta": {"sessionUpdate": "plan"},
            },
        }
        self.wire.send(method="session/update", params=params)

    def do_wrong(self, rest: str) -> None:
        self.update("tool_call", toolCallId=7, title=None, content="no list")
        self.update("plan", entries={"not": "a list"})
        self.update("agent_message_chunk", content=[1, 2])
        self.wire.send(method="session/update", params=[1])

    def do_hostile(self, rest: str) -> None:
        self.do_say(HOSTILE)
        self.update("tool_call", toolCallId="h", title=HOSTILE, kind=HOSTILE, status="completed")
        self.wire.raw(HOSTILE.encode("utf-8", "surrogateescape") + b"\n")

    def do_exit(self, rest: str) -> None:
        os.write(2, b"about to go\n")
        os._exit(int(rest))

    def do_exit_after(self, rest: str) -> None:
        self.afterwards.append(lambda: self.do_exit(rest))

    def do_setsid(self, rest: str) -> None:
        null = subprocess.DEVNULL
        subprocess.Popen(
            ["sleep", "1000"], start_new_session=True, stdin=null, stdout=null, stderr=null
        )

    def do_hold(self, rest: str) -> None:
        self.cancelled.wait()

    def do_slow(self, rest: str) -> None:
        for number in range(int(rest)):
            self.do_say(f"{number} ")
            time.sleep(0.01)

    def do_stderr(self, rest: str) -> None:
        flood(int(rest))

    def do_env(self, rest: str) -> None:
        self.do_say(f"{rest}={os.environ.get(rest, '(unset)')}")

    def do_error(self, rest: str) -> None:
        code, _, message = rest.partition(" ")
        raise Refusal(int(code), message)

    def do_stored(self, rest: str) -> None:
        with sqlite3.connect(self.words["db"]) as db:
            query = "SELECT count(*) FROM agent_sessions WHERE acp_session_id = ?"
            (found,) = db.execute(query, (self.session,)).fetchone()
        self.do_say(f"stored: {found}")


def flood(size: int) -> None:
    line = b"E" * 99 + b"\n"
    for _ in range(size // 100):
        os.write(2, line)


class Agent:
    """Reads requests; answers on this thread, except prompts."""

    def __init__(self, words: dict[str, str]) -> None:
        self.words = words
        self.wire = Wire(words)
        self.turns: dict[str, Turn] = {}
        self.count = 0

    def serve(self) -> None:
        for line in lines():
            if "log" in self.words:
                with open(self.words["log"], "ab") as log:
                    log.write(line + b"\n")
            message = json.loads(line)
            if "method" not in message:
                self.wire.answered(message)
            else:
                self.called(message.get("id"), message["method"], message.get("params") or {})
        while "stubborn" in self.words:
            time.sleep(1)
        os._exit(0)

    def called(self, identifier: Any, method: str, params: dict[str, Any]) -> None:
        known = {
            "initialize": self.initialize,
            "session/new": self.new,
            "session/load": self.load,
            "session/resume": self.resume,
            "session/prompt": self.prompt,
        }
        if method == "session/cancel":
            turn = self.turns.get(params["sessionId"])
            if turn is not None and "deaf" not in self.words:
                turn.cancelled.set()
        elif method in known:
            known[method](identifier, params)
        else:
            self.wire.fail(identifier, -32601, f"Method not found: {method}")

    def initialize(self, identifier: Any, params: dict[str, Any]) -> None:
        if "hang-initialize" in self.words:
            return
        can_load = "load" in self.words or "load-fails" in self.words
        capabilities: dict[str, Any] = {"loadSession": can_load}
        if "resume" in self.words or "resume-missing" in self.words:
            capabilities["sessionCapabilities"] = {"resume": {}}
        answer = {"protocolVersion": 1, "agentCapabilities": capabilities, "authMethods": []}
        self.wire.reply(identifier, answer)

    def new(self, identifier: Any, params: dict[str, Any]) -> None:
        if "auth" in self.words:
            self.wire.fail(identifier, -32000, "Authentication required")
        elif "hang-new" not in self.words:
            self.count += 1
            session = f"scripted-{os.getpid()}-{self.count}"
            self.wire.reply(identifier, {"sessionId": session})
            if "commands" in self.words:
                offered = [{"name": "compact", "description": "forget most of it"}]
                told = Turn(self.wire, self.words, session)
                told.update("available_commands_update", availableCommands=offered)

    def load(self, identifier: Any, params: dict[str, Any]) -> None:
        if "load" not in self.words:
            self.wire.fail(identifier, -32603, "the conversation is lost")
            return
        turn = Turn(self.wire, self.words, params["sessionId"])
        for number in range(int(self.words.get("replay", "0"))):
            turn.do_say(f"old {number}")
            turn.do_tool(f"old-{number}")
        self.wire.reply(identifier, None)

    def resume(self, identifier: Any, params: dict[str, Any]) -> None:
        if "resume" in self.words:
            self.wire.reply(identifier, {})
        else:
            self.wire.fail(identifier, -32601, "Method not found: session/resume")

    def prompt(self, identifier: Any, params: dict[str, Any]) -> None:
        turn = Turn(self.wire, self.words, params["sessionId"])
        self.turns[turn.session] = turn
        text = params["prompt"][-1]["text"]
        threading.Thread(target=turn.run, args=(identifier, text), daemon=True).start()


def lines() -> Iterator[bytes]:
    with os.fdopen(0, "rb", buffering=1 << 16) as stdin:
        yield from (line.rstrip(b"\n") for line in stdin)


def main() -> None:
    """Entry point."""
    words = dict(word.partition("=")[::2] for word in sys.argv[1:])
    if "stubborn" in words:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    if "exit-at-once" in words:
        for number in range(5):
            os.write(2, f"reason {number}\n".encode())
        os._exit(7)
    if "hang-initialize" in words:
        os.write(2, b"waiting for the licence server\n")
    if "flood" in words:
        flood(300_000)
    agent = Agent(words)
    if "banner" in words:
        agent.wire.raw(b"Welcome to Scripted 1.0!\n\x1b[32mloading...\x1b[0m\n")
    agent.serve()


if __name__ == "__main__":
    main()
