"""OpenAI's Agents SDK over responses: what it asks for by itself, a tool, an output that follows a schema, and the record."""

import asyncio
import os

import openai
from agents import Agent, ModelSettings, Runner, function_tool, set_default_openai_client, set_tracing_disabled
from openai.types.shared import Reasoning
from pydantic import BaseModel
from record import traces, turns

set_tracing_disabled(True)
set_default_openai_client(openai.AsyncOpenAI(base_url=os.environ["GATEWAY_URL"], api_key="unused", max_retries=0))


class Verdict(BaseModel):
    yes: bool


@function_tool
def weather(city: str) -> str:
    """Says how the weather is."""
    return "it rains"


async def main():
    # As it asks the newest models of OpenAI's where nothing else is said.
    settings = ModelSettings(reasoning=Reasoning(effort="none"), verbosity="low")
    told = await Runner.run(Agent(name="count", instructions="count", model="agent", model_settings=settings), "how many words")
    assert told.final_output == "3 words", told
    hidden = ModelSettings(store=False, response_include=["reasoning.encrypted_content"], reasoning=Reasoning(effort="low", summary="auto"))
    told = await Runner.run(Agent(name="hide", model="agent", model_settings=hidden, tools=[weather]), "how many words")
    assert told.final_output == "2 words", told
    [trace] = [trace for trace in traces() if any(turn["extra"].get("id") == told.last_response_id for turn in turns(trace))]
    assert len(turns(trace)) == 2, "the result of the tool goes on with the call"
    told = await Runner.run(Agent(name="own", model="own", output_type=Verdict), "how many words")
    assert isinstance(told.final_output, Verdict), told


asyncio.run(main())
