"""Calls over real pipes whose other end isn't a browser."""

import asyncio
import os

import pytest

from tilewright.data_gen.devtools.connection import Connection, DevToolsError


def test_a_call_that_finds_the_browser_gone_fails_at_once() -> None:
    async def main() -> None:
        (answers, their_answers), (their_commands, commands) = os.pipe(), os.pipe()
        connection = Connection(answers, commands, lambda method, params: None)
        os.close(their_commands)
        with pytest.raises(DevToolsError, match=r"Browser\.getVersion: can't write to the browser"):
            await asyncio.wait_for(connection.root.send("Browser.getVersion"), 20)
        assert connection.ended.is_set()
        with pytest.raises(DevToolsError, match="can't write"):
            await connection.root.send("Browser.getVersion")
        os.close(their_answers)

    asyncio.run(main())
