"""A scripted chat model on the loopback interface, for real agents (OpenAI chat completions).

The newest user text that holds a keyword says what is answered:

- ``RUN `cmd` ``: a call of the agent's shell tool, then a text that quotes the tool's result
- `SLOW n`: n pieces of text, one each 0.1 s
- `REMEMBER word`: an acknowledgement; `RECALL`: what an earlier message of the same conversation
  asked to remember, or "nothing"
- `FAIL code`: that HTTP status
- `HELLO`, or nothing known: a greeting in six pieces
"""

from __future__ import annotations

import json
import re
import select
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Final

import msgspec

GREETING: Final = ("Hello ", "from ", "the ", "loopback ", "model", ".")
MODEL: Final = "loopback-model"

_KEYWORDS: Final = re.compile(
    r"(?P<run>RUN) `(?P<cmd>[^`]+)`|(?P<slow>SLOW) (?P<pieces>\d+)|(?P<fail>FAIL) (?P<code>\d+)"
    r"|(?P<remember>REMEMBER) (?P<fact>\w+)|(?P<recall>RECALL)|(?P<hello>HELLO)"
)
_SHELL_TOOLS: Final = ("run_shell_command", "shell", "bash", "execute_command")
_PIECE_SECONDS: Final = 0.1


class Answer(msgspec.Struct, kw_only=True, frozen=True):
    """What one request is answered with: pieces of text, then perhaps a tool call."""

    pieces: tuple[str, ...] = ()
    pause: float = 0.0
    tool: str = ""
    arguments: str = ""
    status: int = 200


class Exchange(msgspec.Struct, kw_only=True):
    """One request as the server saw it; `aborted` if the client hung up before the end."""

    asked: str
    answer: Answer
    sent: int = 0
    done: bool = False
    aborted: bool = False


def text_of(content: object) -> str:
    """The text of a message's content, which is a string or a list of parts."""
    if isinstance(content, str):
        return content
    if isinstance(content, list):
        return "\n".join(str(part.get("text", "")) for part in content if isinstance(part, dict))
    return ""


def decide(messages: list[dict], tools: list[dict]) -> tuple[str, Answer]:
    """The user text that decides, and the answer to it."""
    users = [text_of(m.get("content")) for m in messages if m.get("role") == "user"]
    for index in range(len(users) - 1, -1, -1):
        found = list(_KEYWORDS.finditer(users[index]))
        if found:
            return users[index], _answer(found[-1], users[:index], messages[-1], tools)
    return (users[-1] if users else ""), Answer(pieces=GREETING)


def _answer(found: re.Match[str], earlier: list[str], last: dict, tools: list[dict]) -> Answer:
    if found["run"]:
        if last.get("role") == "tool":
            return Answer(pieces=("FINAL tool said: ", text_of(last.get("content"))[:200]))
        return _call_shell(found["cmd"], tools)
    if found["slow"]:
        ticks = tuple(f"tick {number} " for number in range(int(found["pieces"])))
        return Answer(pieces=ticks, pause=_PIECE_SECONDS)
    if found["fail"]:
        return Answer(status=int(found["code"]))
    if found["remember"]:
        return Answer(pieces=("I will ", f"remember {found['fact']}."))
    if found["recall"]:
        facts = re.findall(r"REMEMBER (\w+)", "\n".join(earlier))
        return Answer(pieces=("You told me: ", facts[-1] if facts else "nothing", "."))
    return Answer(pieces=GREETING)


def _call_shell(command: str, tools: list[dict]) -> Answer:
    offered = {tool["function"]["name"]: tool["function"] for tool in tools if "function" in tool}
    name = next((wanted for wanted in _SHELL_TOOLS if wanted in offered), "")
    if not name:
        return Answer(pieces=("no shell tool among: ", ", ".join(offered)))
    schema = offered[name].get("parameters") or {}
    arguments: dict[str, object] = {"command": command}
    for field in schema.get("required", ()):
        kind = schema.get("properties", {}).get(field, {}).get("type", "string")
        filler: dict[str, object] = {"boolean": False, "number": 5, "integer": 5}
        arguments.setdefault(field, filler.get(kind, "for the test"))
    return Answer(pieces=("I will run it. ",), tool=name, arguments=json.dumps(arguments))


class LoopbackModel:
    """A running server: where it is, and what it was asked."""

    def __init__(self) -> None:
        self.exchanges: list[Exchange] = []
        self.changed = threading.Condition()
        server = ThreadingHTTPServer(("127.0.0.1", 0), _handler_for(self))
        server.daemon_threads = True
        self._server = server
        self._thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
        self._thread.start()

    @property
    def url(self) -> str:
        """The base address that clients of the chat API take."""
        host, port = self._server.server_address[:2]
        return f"http://{host!s}:{port}/v1"

    def exchanges_for(self, keyword: str) -> list[Exchange]:
        """The exchanges whose deciding text holds `keyword`, oldest first."""
        with self.changed:
            return [each for each in self.exchanges if keyword in each.asked]

    def note(self) -> None:
        """Tell whoever waits that an exchange moved."""
        with self.changed:
            self.changed.notify_all()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join(5)


@contextmanager
def loopback_model() -> Iterator[LoopbackModel]:
    """A server of its own; gone at the end."""
    model = LoopbackModel()
    try:
        yield model
    finally:
        model.close()


def _handler_for(model: LoopbackModel) -> type[BaseHTTPRequestHandler]:
    class Handler(_Handler):
        owner = model

    return Handler


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    owner: LoopbackModel

    def log_message(self, format: str, *args: object) -> None:
        """Quiet: `exchanges` holds what matters."""

    def do_GET(self) -> None:
        self._json({"object": "list", "data": [{"id": MODEL, "object": "model", "created": 1}]})

    def do_POST(self) -> None:
        raw = self.rfile.read(int(self.headers.get("content-length") or 0))
        body = json.loads(raw or b"{}")
        asked, answer = decide(body.get("messages") or [], body.get("tools") or [])
        exchange = Exchange(asked=asked, answer=answer)
        with self.owner.changed:
            self.owner.exchanges.append(exchange)
        try:
            self._reply(body, exchange)
            exchange.done = True
        except (BrokenPipeError, ConnectionResetError):
            exchange.aborted = True
            self.close_connection = True
        self.owner.note()

    def _reply(self, body: dict, exchange: Exchange) -> None:
        answer = exchange.answer
        if answer.status != 200:
            error = {"message": "scripted failure", "type": "scripted", "code": "scripted"}
            self._json({"error": error}, answer.status)
        elif body.get("stream"):
            self._stream(exchange)
        else:
            message: dict[str, object] = {"role": "assistant", "content": "".join(answer.pieces)}
            if answer.tool:
                message["tool_calls"] = [_tool_call(answer)]
            choice = {"index": 0, "message": message, "finish_reason": _finish(answer)}
            self._json(_body("chat.completion", [choice]) | {"usage": _USAGE})

    def _stream(self, exchange: Exchange) -> None:
        answer = exchange.answer
        self.send_response(200)
        self.send_header("content-type", "text/event-stream")
        self.send_header("transfer-encoding", "chunked")
        self.end_headers()
        for piece in answer.pieces:
            self._pause(answer.pause)
            self._event(_chunk({"role": "assistant", "content": piece}))
            exchange.sent += 1
            self.owner.note()
        if answer.tool:
            self._event(_chunk({"tool_calls": [{"index": 0, **_tool_call(answer)}]}))
        self._event(_chunk({}, _finish(answer)))
        self._event(_body("chat.completion.chunk", []) | {"usage": _USAGE})
        self._write(b"data: [DONE]\n\n")
        self.wfile.write(b"0\r\n\r\n")

    def _pause(self, seconds: float) -> None:
        """Wait, but notice at once when the client hangs up."""
        deadline = time.monotonic() + seconds
        while (left := deadline - time.monotonic()) > 0:
            ready, _, _ = select.select([self.connection], [], [], left)
            if ready and not self.connection.recv(1, socket.MSG_PEEK):
                raise ConnectionResetError

    def _event(self, event: dict) -> None:
        self._write(b"data: " + json.dumps(event).encode() + b"\n\n")

    def _write(self, data: bytes) -> None:
        self.wfile.write(b"%x\r\n%s\r\n" % (len(data), data))
        self.wfile.flush()

    def _json(self, body: dict, status: int = 200) -> None:
        data = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)


_USAGE: Final = {"prompt_tokens": 100, "completion_tokens": 20, "total_tokens": 120}


def _body(kind: str, choices: list[dict]) -> dict:
    return {"id": "loopback", "object": kind, "created": 1, "model": MODEL, "choices": choices}


def _chunk(delta: dict, finish: str | None = None) -> dict:
    return _body("chat.completion.chunk", [{"index": 0, "delta": delta, "finish_reason": finish}])


def _finish(answer: Answer) -> str:
    return "tool_calls" if answer.tool else "stop"


def _tool_call(answer: Answer) -> dict:
    function = {"name": answer.tool, "arguments": answer.arguments}
    return {"id": f"call_{time.monotonic_ns()}", "type": "function", "function": function}
