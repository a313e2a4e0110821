"""Customers with the `openai` package, for `hone loop --client`: every line is a question, asked through an unmodified client.

Reads {"id", "headers", "body"} and writes {"id", "message"} or {"id", "error"}; many questions are underway at once. Where the package is
missing it is installed beside the build, as for the other clients.
"""

import asyncio
import json
import os
import sys
from pathlib import Path


def with_openai():
    """Goes on in an environment that has the client."""
    sys.path.insert(0, str(Path(__file__).resolve().parent))
    import run

    python = run.python("openai")
    os.execv(python, [str(python), __file__])


try:
    from openai import APIStatusError, AsyncOpenAI
except ImportError:
    with_openai()


async def ask(client, question):
    try:
        answer = await client.chat.completions.create(**question["body"], extra_headers=question["headers"])
        told = {"message": answer.choices[0].message.model_dump(exclude_none=True)}
    except APIStatusError as error:
        told = {"error": {"code": error.code, "message": f"{error.status_code}: {error.message}"}}
    except Exception as error:
        told = {"error": {"code": None, "message": f"{type(error).__name__}: {error}"}}
    print(json.dumps({"id": question["id"]} | told), flush=True)


async def main():
    client = AsyncOpenAI(max_retries=20, timeout=600)
    loop = asyncio.get_running_loop()
    reader = asyncio.StreamReader(limit=2**24)
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    underway = set()
    while line := await reader.readline():
        task = asyncio.create_task(ask(client, json.loads(line)))
        underway.add(task)
        task.add_done_callback(underway.discard)
    await asyncio.gather(*underway)


asyncio.run(main())
