"""The local server: it serves the page, and a socket for searches in the native engine.

The server listens only on the loopback interface. It refuses requests for other host names and
pages from other origins. It does not trust messages: a malformed message is answered with an error
and affects neither the server nor other pages.
"""

import asyncio
import contextlib
import json
import secrets
import socket
import threading
import time
import webbrowser
from collections.abc import Callable, Coroutine, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from hardmax._ground.extras import load_extra
from hardmax.errors import ArgumentError, HardmaxError
from hardmax.explorer.heads_at_work import MOST_TOKENS, checkpoint_to_data
from hardmax.explorer.jobs import certify, encode_cells, find_cells, parse_request
from hardmax.explorer.joined_page import build_page

MOST_BYTES = 32 << 20
"""The maximum size of a message in bytes."""
MOST_PAGES = 8
"""The maximum number of pages connected at once."""
MOST_CHARACTERS = 10_000
"""The maximum length of a text for a checkpoint, in characters."""
MOST_PER_SECOND = 60
"""The maximum number of messages per second from a page; further messages are delayed."""
_HEADERS = {
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cache-control": "no-store",
}


def make_application(
    start: dict[str, Any] | None = None,
    port: int = 0,
    token: str | None = None,
    *,
    models: Sequence[dict[str, Any]] = (),
    offers: Sequence[str] = (),
) -> Any:
    """Return the server as an ASGI application.

    Args:
        start: The initial state of the page.
        port: The port that the server will listen on, which is part of its address.
        token: The token that the page must send when it connects. The default is a new one.
        models: The heads of checkpoints at work that the page contains.
        offers: The names of the checkpoints that the page may run on other tokens. The server reads
            no others.

    Raises:
        MissingExtraError: If Starlette is not installed.
    """
    purpose: dict[str, str] = {"extra": "app", "purpose": "Local servers"}
    applications = load_extra("starlette.applications", **purpose)
    responses = load_extra("starlette.responses", **purpose)
    routing = load_extra("starlette.routing", **purpose)
    secret = secrets.token_urlsafe(16) if token is None else token
    hosts = {f"{name}:{port}" for name in ("127.0.0.1", "localhost", "[::1]")}
    text = build_page(start, server=secret, models=models, offers=offers)
    pages = _PageCount()
    # Two threads per page: one for its search, and one to read its next request.
    threads = ThreadPoolExecutor(2 * MOST_PAGES)

    async def show(request: Any) -> Any:
        if request.headers.get("host") not in hosts:
            return responses.PlainTextResponse("unknown host name", 403)
        return responses.HTMLResponse(text, headers=_HEADERS)

    async def answer(websocket: Any) -> None:
        origins = {f"http://{host}" for host in hosts}
        is_ours = (
            websocket.headers.get("host") in hosts
            and websocket.headers.get("origin") in origins
            # Compare bytes: compare_digest accepts only ASCII text.
            and secrets.compare_digest(
                websocket.query_params.get("token", "").encode("utf-8", "replace"), secret.encode()
            )
        )
        if not is_ours or pages.count >= MOST_PAGES:
            await websocket.close(1008)
            return
        await websocket.accept()
        pages.count += 1
        try:
            await _PageConnection(websocket, threads, frozenset(offers)).run()
        finally:
            pages.count -= 1

    routes = [routing.Route("/", show), routing.WebSocketRoute("/jobs", answer)]
    return applications.Starlette(routes=routes)


class _PageCount:
    """The number of connected pages."""

    count = 0


class _PageConnection:
    """The connection to one page, which runs one search at a time: the latest."""

    def __init__(self, websocket: Any, threads: ThreadPoolExecutor, offers: frozenset[str]) -> None:
        self.socket = websocket
        self.threads = threads
        self.offers = offers
        self.cancelled = threading.Event()
        self.task: asyncio.Task[None] | None = None
        self.times: list[float] = []

    async def run(self) -> None:
        try:
            while True:
                message = await self.socket.receive()
                if message["type"] == "websocket.disconnect":
                    return
                await self.handle(message.get("text"))
        finally:
            await self.cancel_search()

    async def handle(self, text: str | None) -> None:
        number = None
        try:
            await self.limit_rate()
            message = _read_message(text)
            number = message["id"]
            await self.cancel_search()
            if message.get("kind") == "cancel":
                return
            act: Callable[..., Coroutine[Any, Any, None]]
            if message.get("kind") == "heads":
                request, act = self.read_heads(message), self.run_checkpoint
            else:
                request = await self.run_in_thread(parse_request, message)
                act = self.certify if message.get("kind") == "certificate" else self.search
            self.cancelled = threading.Event()
            self.task = asyncio.create_task(
                self.answer_safely(number, act(number, request, self.cancelled))
            )
        except Exception as error:
            await self.send(id=number, error=_error_text(error))

    async def answer_safely(self, number: int, answer: Coroutine[Any, Any, None]) -> None:
        """Answer a request, or report an error; the connection stays open in any case."""
        try:
            await answer
        except Exception as error:
            await self.send(id=number, error=_error_text(error))

    async def run_in_thread(self, work: Callable[..., Any], *given: Any) -> Any:
        """Run a function in a thread."""
        return await asyncio.get_running_loop().run_in_executor(self.threads, work, *given)

    async def limit_rate(self) -> None:
        now = time.monotonic()
        self.times = [*(at for at in self.times if now - at < 1.0), now]
        if len(self.times) > MOST_PER_SECOND:
            await asyncio.sleep(0.2)

    async def cancel_search(self) -> None:
        """Cancel the current search and wait until it has ended."""
        self.cancelled.set()
        if self.task is not None:
            with contextlib.suppress(Exception):
                await self.task
            self.task = None

    async def search(self, number: int, request: Any, cancelled: threading.Event) -> None:
        loop, last_report = asyncio.get_running_loop(), [time.monotonic()]

        def report(n_cells: int) -> None:
            if time.monotonic() - last_report[0] > 0.2:
                last_report[0] = time.monotonic()
                asyncio.run_coroutine_threadsafe(self.send(id=number, progress=n_cells), loop)

        part = await self.run_in_thread(find_cells, request, cancelled.is_set, report)
        if part is not None and not cancelled.is_set():
            await self.socket.send_bytes(await self.run_in_thread(encode_cells, number, part))

    async def certify(self, number: int, request: Any, cancelled: threading.Event) -> None:
        made = await self.run_in_thread(certify, request)
        if not cancelled.is_set():
            await self.send(id=number, **made)

    def read_heads(self, message: dict[str, Any]) -> tuple[str, list[int] | None, str | None]:
        """Read the checkpoint to run, and the tokens or the text to run it on."""
        name, tokens, text = (message.get(field) for field in ("name", "tokens", "text"))
        if not isinstance(name, str) or name not in self.offers:
            raise ArgumentError(
                f"`name` must be a checkpoint that the server offers; got {name!r:.60}."
            )
        is_list = isinstance(tokens, list) and 2 <= len(tokens) <= MOST_TOKENS
        if tokens is not None and not (is_list and all(type(token) is int for token in tokens)):
            raise ArgumentError(f"`tokens` must be a list of 2 to {MOST_TOKENS} integers.")
        if text is not None and not (isinstance(text, str) and len(text) <= MOST_CHARACTERS):
            raise ArgumentError(f"`text` must have at most {MOST_CHARACTERS} characters.")
        return name, tokens, text

    async def run_checkpoint(
        self,
        number: int,
        request: tuple[str, list[int] | None, str | None],
        cancelled: threading.Event,
    ) -> None:
        heads = await self.run_in_thread(checkpoint_to_data, *request)
        if not cancelled.is_set():
            await self.send(id=number, heads=heads)

    async def send(self, **fields: Any) -> None:
        # The page may have disconnected.
        with contextlib.suppress(RuntimeError):
            await self.socket.send_text(json.dumps(fields))


def _error_text(error: Exception) -> str:
    """Return the message of a HardmaxError, and only the type of any other error."""
    if isinstance(error, HardmaxError):
        return str(error)
    return f"The server failed to answer ({type(error).__name__})."


def _read_message(text: str | None) -> dict[str, Any]:
    if text is None or len(text) > MOST_BYTES:
        raise ArgumentError(f"A message must be text of at most {MOST_BYTES} bytes.")
    try:
        message = json.loads(text)
    except (ValueError, RecursionError):
        raise ArgumentError("A message must be JSON.") from None
    if not isinstance(message, dict) or type(message.get("id")) is not int:
        raise ArgumentError("A message must be an object with an integer `id`.")
    return message


def serve(
    start: dict[str, Any] | None = None,
    port: int | None = None,
    *,
    opens: bool = True,
    models: Sequence[dict[str, Any]] = (),
    offers: Sequence[str] = (),
) -> None:
    """Serve the page on the loopback interface until Ctrl-C.

    Args:
        start: The initial state of the page.
        port: The port. The default is any free port.
        opens: Whether to open a browser.
        models: The heads of checkpoints at work that the page contains.
        offers: The names of the checkpoints that the page may run.

    Raises:
        MissingExtraError: If Starlette or uvicorn is not installed.
    """
    uvicorn = load_extra("uvicorn", extra="app", purpose="Local servers")
    with socket.socket() as listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(("127.0.0.1", port or 0))
        number = int(listener.getsockname()[1])
        address = f"http://127.0.0.1:{number}/"
        print(f"{'page':<14}{address}   (press Ctrl-C to stop)", flush=True)
        if opens:
            threading.Timer(0.5, webbrowser.open, [address]).start()
        config = uvicorn.Config(
            make_application(start, number, models=models, offers=offers),
            log_level="warning",
            ws_max_size=MOST_BYTES,
            ws_max_queue=4,
            timeout_graceful_shutdown=1,
        )
        uvicorn.Server(config).run(sockets=[listener])
