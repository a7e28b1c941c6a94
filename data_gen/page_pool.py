"""Several pages rendered at a time, each in a Chromium of its own; PDFs and pictures in worker processes."""

import asyncio
from collections.abc import Callable, Iterator, Sequence
from contextlib import AsyncExitStack
from pathlib import Path

from tilewright.configs.errors import InputError, UserError
from tilewright.configs.items import ItemError
from tilewright.data_gen.browser import Browser
from tilewright.data_gen.paged_documents import DocumentWorker, render_document
from tilewright.data_gen.profiles import PROFILES
from tilewright.data_gen.records import Page
from tilewright.data_gen.render_page import Choose, Facts, PageSettings, facts_of, render_page
from tilewright.data_gen.site import Site
from tilewright.data_gen.sources.pages_folder import PagesFolder
from tilewright.data_gen.tile_store import write_tiles
from tilewright.data_gen.tiles import working_file

ATTEMPTS = 2
ODD = (ArithmeticError, TypeError, ValueError)  # what numbers and texts raise that no page should have: it fails alone
HTML_SUFFIXES = ("", ".html")
Result = tuple[Page, Facts | ItemError]
Choosing = Callable[[Page], Choose]


class PagePool:
    """Renders pages of ``site`` (documents of ``folder``) to ``work/{page_id}.arrow``, ``workers`` at a time."""

    def __init__(
        self, site: Site, folder: Path, work: Path, settings: PageSettings, workers: int, pages_per_browser: int
    ) -> None:
        self._site, self._folder, self._work, self._settings = site, folder, work, settings
        self._workers, self._pages_per_browser = workers, pages_per_browser
        self._reasons: dict[str, str] = {}

    def failed(self, pages: Sequence[Page]) -> list[tuple[Page, str]]:
        """Those of ``pages`` that failed, and why."""
        return [(page, self._reasons[page.page_id]) for page in pages if page.page_id in self._reasons]

    def run(self, todo: Sequence[Page], choosing: Choosing) -> Iterator[Result]:
        """(page, its facts or why it failed) as pages are finished; ``choosing(page)`` picks the tiles of a page."""
        if not todo:
            return
        with asyncio.Runner() as runner:
            loop = runner.get_loop()
            results: asyncio.Queue[Result] = asyncio.Queue()
            task = loop.create_task(self._render_all(todo, choosing, results))
            try:
                for _ in todo:
                    page, result = loop.run_until_complete(_next(results, task))
                    if isinstance(result, ItemError):
                        self._reasons[page.page_id] = str(result)
                    yield page, result
                loop.run_until_complete(task)
            finally:
                task.cancel()
                loop.run_until_complete(asyncio.gather(task, return_exceptions=True))

    async def _render_all(self, todo: Sequence[Page], choosing: Choosing, results: asyncio.Queue[Result]) -> None:
        waiting = iter(todo)
        async with AsyncExitStack() as stack:
            first: Browser | None = None
            if any(is_html(page) for page in todo):
                first = await stack.enter_async_context(self._browser())
                if self._settings.profile not in PROFILES.values():
                    await first.check(self._settings.profile)

            async def work(browser: Browser | None) -> None:
                async with AsyncExitStack() as own:
                    documents = own.enter_context(DocumentWorker())
                    for page in waiting:
                        choose = choosing(page)
                        if is_html(page):
                            assert first is not None
                            if browser is None:  # of the same program, so that pixels are the same
                                browser = await own.enter_async_context(self._browser(first.program))
                            await results.put((page, await self._attempt(browser, page, choose)))
                        else:
                            await results.put((page, await asyncio.to_thread(self._draw, documents, page, choose)))

            async with asyncio.TaskGroup() as group:
                for number in range(min(self._workers, len(todo))):
                    group.create_task(work(None if number else first))

    def _browser(self, program: str = "") -> Browser:
        """A browser for one page at a time: one draws no two frames at once."""
        return Browser(self._site, self._settings.viewport_px, self._pages_per_browser, program)

    async def _attempt(self, browser: Browser, page: Page, choose: Choose) -> Facts | ItemError:
        """Render a page; after a crash of page or browser once more."""
        path = self._path(page)
        for attempt in range(1, ATTEMPTS + 1):
            try:
                return await render_page(browser, page, choose, self._settings, path)
            except ItemError as error:
                return error
            except TimeoutError:
                return ItemError(f"{page.url}: took more than page_timeout_s = {self._settings.page_timeout_s} s")
            except ODD as error:
                return _odd(page, error)
            except RuntimeError as error:
                reason = f"{page.url}: {str(error).splitlines()[0]} ({attempt} attempts)"
        return ItemError(reason)

    def _draw(self, documents: DocumentWorker, page: Page, choose: Choose) -> Facts | ItemError:
        """Render a PDF or a picture."""
        sizes = self._settings.document_sizes
        try:
            path = PagesFolder(self._folder).document_path(page.html_path)
        except InputError as error:
            return ItemError(f"{page.url}: {error}")
        try:
            drawn = render_document(path, page, sizes, choose=choose, worker=documents)
            tiles = write_tiles(self._path(page), drawn.tiles)
        except ItemError as error:
            return error
        except ODD as error:
            return _odd(page, error)
        facts = facts_of(drawn.width_px, drawn.height_px, len(drawn.boxes), tiles)
        return facts | {"requests_refused": 0, "chromium": ""}

    def _path(self, page: Page) -> Path:
        return working_file(self._work, page.page_id, "arrow")


def _odd(page: Page, error: Exception) -> ItemError:
    """One of ODD as the page's failure. What is missing here, such as an extra, isn't its fault: that is raised."""
    if isinstance(error, UserError):
        raise error
    return ItemError(f"{page.url}: can't be made into tiles ({error!r})")


def is_html(page: Page) -> bool:
    """Whether a page is laid out by the browser (else it is a PDF or a picture)."""
    return Path(page.html_path).suffix in HTML_SUFFIXES


async def _next(results: asyncio.Queue[Result], task: asyncio.Task[None]) -> Result:
    """The next result; an error of the task is raised instead of waited for."""
    getting = asyncio.ensure_future(results.get())
    await asyncio.wait([getting, task], return_when=asyncio.FIRST_COMPLETED)
    if not getting.done():
        if task.exception() is None:
            return await getting
        getting.cancel()
        raise _first(task.exception())
    return getting.result()


def _first(error: BaseException | None) -> BaseException:
    """The error itself, out of the group that a task group makes of it."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    assert error is not None
    return error
