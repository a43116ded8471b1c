"""The JSON-RPC core (A6, A11): order kept, nothing dropped, noise is no end, every wait bounded."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from agents_view.acp.rpc import IncomingRequest, RpcClosed, RpcError, RpcPeer

MAX_LINE = 1 << 16


class Params(msgspec.Struct):
    text: str = ""


class Recorder:
    """A handler that keeps what it is told."""

    def __init__(self) -> None:
        self.notifications: list[tuple[str, bytes]] = []
        self.requests: list[tuple[str, IncomingRequest]] = []
        self.noise: list[str] = []
        self.closed: list[str] = []

    def on_notification(self, method: str, params: bytes) -> None:
        self.notifications.append((method, params))

    def on_request(self, method: str, request: IncomingRequest) -> None:
        self.requests.append((method, request))

    def on_noise(self, text: str) -> None:
        self.noise.append(text)

    def on_closed(self, reason: str) -> None:
        self.closed.append(reason)


class Pipe:
    """The other side: feeds bytes, sees what was written."""

    def __init__(self, handler: Recorder, max_line: int = MAX_LINE) -> None:
        self._chunks: asyncio.Queue[bytes] = asyncio.Queue()
        self.written: asyncio.Queue[dict] = asyncio.Queue()
        self.peer = RpcPeer(self._chunks.get, self._write, handler, max_line)

    async def _write(self, data: bytes) -> None:
        assert data.endswith(b"\n") and data.count(b"\n") == 1
        self.written.put_nowait(json.loads(data))

    def feed(self, *chunks: bytes) -> None:
        for chunk in chunks:
            self._chunks.put_nowait(chunk)


@asynccontextmanager
async def running(max_line: int = MAX_LINE) -> AsyncIterator[tuple[Pipe, Recorder]]:
    handler = Recorder()
    pipe = Pipe(handler, max_line)
    task = asyncio.create_task(pipe.peer.run())
    yield pipe, handler
    pipe.feed(b"")
    async with asyncio.timeout(5):
        await task


async def everything(*chunks: bytes) -> Recorder:
    """What a peer makes of these chunks and the end."""
    async with running() as (pipe, handler):
        pipe.feed(*chunks)
    return handler


async def test_a_request_is_answered_by_its_id() -> None:
    async with running() as (pipe, _):
        one = asyncio.ensure_future(pipe.peer.request("a", Params(text="é"), 5))
        two = asyncio.ensure_future(pipe.peer.request("b", Params(), 5))
        sent = [await pipe.written.get(), await pipe.written.get()]
        assert [m["method"] for m in sent] == ["a", "b"]
        assert sent[0]["params"] == {"text": "é"} and sent[0]["jsonrpc"] == "2.0"
        pipe.feed(b'{"id":%d,"result":{"n":2}}\n{"id":1,"result":null}\n' % sent[1]["id"])
        assert await two == b'{"n":2}'
        assert await one == b"null"


async def test_a6_an_answer_with_its_id_as_text_is_taken() -> None:
    async with running() as (pipe, _):
        asked = asyncio.ensure_future(pipe.peer.request("a", Params(), 5))
        number = (await pipe.written.get())["id"]
        pipe.feed(b'{"jsonrpc":"2.0","id":"%d","result":"x"}\n' % number)
        assert await asked == b'"x"'


async def test_an_error_keeps_code_message_and_data() -> None:
    async with running() as (pipe, _):
        asked = asyncio.ensure_future(pipe.peer.request("a", Params(), 5))
        await pipe.written.get()
        pipe.feed(b'{"id":1,"error":{"code":-32000,"message":"no","data":{"why":1}}}\n')
        with pytest.raises(RpcError) as caught:
            await asked
    assert (caught.value.code, caught.value.message) == (-32000, "no")
    assert caught.value.data == '{"why":1}'


async def test_a2_a_request_has_a_bound_and_a_late_answer_is_no_noise() -> None:
    async with running() as (pipe, handler):
        with pytest.raises(TimeoutError):
            await pipe.peer.request("a", Params(), 0.01)
        pipe.feed(b'{"id":1,"result":{}}\n')
    assert handler.noise == []


async def test_the_end_tells_whoever_waits_and_whoever_asks_later() -> None:
    handler = Recorder()
    pipe = Pipe(handler)
    task = asyncio.create_task(pipe.peer.run())
    asked = asyncio.ensure_future(pipe.peer.request("a", Params(), None))
    await pipe.written.get()
    pipe.feed(b"")
    with pytest.raises(RpcClosed, match="closed its output"):
        await asked
    await task
    with pytest.raises(RpcClosed):
        await pipe.peer.request("b", Params(), 1)
    assert len(handler.closed) == 1


async def test_a6_noise_between_messages_ends_nothing() -> None:
    lines = [
        "Welcome!",
        "null",
        "42",
        "[1]",
        '"hi"',
        "{}",
        '{"jsonrpc":"2.0"}',
        "{half",
        "[" * 9000,
    ]
    note = '{"method":"m","params":{"n":1}}'
    handler = await everything("\n".join([*lines, "", note, ""]).encode())
    assert [method for method, _ in handler.notifications] == ["m"]
    assert len(handler.noise) == len(lines)
    assert handler.noise[0] == "Welcome!"


async def test_a6_invalid_utf8_is_replaced_and_noted() -> None:
    handler = await everything(
        b'{"method":"m","params":{"t":"a\xff"}}\n', b"\xc3\x28 alone\n", b'{"method":"n"}\n'
    )
    assert handler.notifications[0] == ("m", '{"t":"a\ufffd"}'.encode())
    assert handler.notifications[1][0] == "n"
    assert handler.noise == ["invalid UTF-8 in a message was replaced", "\ufffd( alone"]


async def test_a6_a_line_over_the_limit_is_the_end_with_that_reason() -> None:
    handler = Recorder()
    pipe = Pipe(handler, max_line=1000)
    task = asyncio.create_task(pipe.peer.run())
    pipe.feed(b'{"method":"%s"}\n' % (b"m" * 900), *[b"x" * 600] * 2)
    async with asyncio.timeout(5):
        await task
    assert len(handler.notifications) == 1
    assert "more than 1000 bytes" in handler.closed[0]


async def test_a6_a_complete_line_over_the_limit_is_refused_too() -> None:
    """Wherever the chunks are cut: the limit is about the line."""
    handler = Recorder()
    pipe = Pipe(handler, max_line=1000)
    task = asyncio.create_task(pipe.peer.run())
    pipe.feed(b"x" * 999, b"y" * 999 + b"\n", b"")
    async with asyncio.timeout(5):
        await task
    assert "more than 1000 bytes" in handler.closed[0]


async def test_a11_the_order_of_calls_is_the_order_on_the_wire() -> None:
    async with running() as (pipe, _):
        for number in range(200):
            pipe.peer.notify("n", Params(text=str(number)))
        await pipe.peer.drain()
        got = [(await pipe.written.get())["params"]["text"] for _ in range(200)]
    assert got == [str(number) for number in range(200)]


async def test_a_request_of_the_other_side_is_answered_once_with_its_own_id() -> None:
    async with running() as (pipe, handler):
        pipe.feed(b'{"id":"abc","method":"ask","params":{}}\n{"id":0,"method":"ask"}\n')
        while len(handler.requests) < 2:
            await asyncio.sleep(0)
        for _, request in handler.requests:
            request.respond(Params(text="yes"))
            request.fail(1, "too late")
        assert await pipe.written.get() == {
            "jsonrpc": "2.0",
            "id": "abc",
            "result": {"text": "yes"},
        }
        assert (await pipe.written.get())["id"] == 0
        assert pipe.written.empty()


async def test_a_null_result_is_an_answer() -> None:
    """`result: null` must be on the wire: a message without it is no response."""
    async with running() as (pipe, handler):
        pipe.feed(b'{"id":7,"method":"ask"}\n')
        while not handler.requests:
            await asyncio.sleep(0)
        handler.requests[0][1].respond(None)
        assert await pipe.written.get() == {"jsonrpc": "2.0", "id": 7, "result": None}


async def test_a_writer_whose_other_side_is_gone_ends_nothing() -> None:
    handler = Recorder()
    chunks: asyncio.Queue[bytes] = asyncio.Queue()

    async def broken(data: bytes) -> None:
        raise BrokenPipeError

    peer = RpcPeer(chunks.get, broken, handler, MAX_LINE)
    task = asyncio.create_task(peer.run())
    peer.notify("a", Params())
    peer.notify("b", Params())
    async with asyncio.timeout(5):
        await peer.drain()
    chunks.put_nowait(b'{"method":"still"}\n')
    chunks.put_nowait(b"")
    await task
    assert [method for method, _ in handler.notifications] == ["still"]


@given(cuts=st.lists(st.integers(1, 40), max_size=30), last_newline=st.booleans())
def test_a6_chunks_may_be_cut_anywhere(cuts: list[int], last_newline: bool) -> None:
    lines = [f'{{"method":"m{n}","params":"é{"x" * n}"}}' for n in range(8)]
    data = ("noise\n\r\n" + "\n".join(lines)).encode() + (b"\n" if last_newline else b"")
    chunks = []
    for size in cuts:
        chunks.append(data[:size])
        data = data[size:]
    handler = asyncio.run(everything(*[chunk for chunk in (*chunks, data) if chunk]))
    assert [method for method, _ in handler.notifications] == [f"m{n}" for n in range(8)]
    assert handler.noise == ["noise"]


@given(lines=st.lists(st.binary(max_size=60).filter(lambda b: b"\n" not in b), max_size=8))
def test_a6_no_line_is_fatal(lines: list[bytes]) -> None:
    handler = asyncio.run(everything(b"\n".join([*lines, b'{"method":"end"}', b""])))
    assert handler.notifications[-1][0] == "end"
