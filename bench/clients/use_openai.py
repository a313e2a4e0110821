"""The `openai` SDK: chat, a stream with its usage, tools over two turns, a schema, errors, and what of it is on the record."""

import os

import openai
from pydantic import BaseModel
from record import traces, turns

client = openai.OpenAI(base_url=os.environ["GATEWAY_URL"], api_key="unused", max_retries=0)
ask = [{"role": "user", "content": "how many words"}]

raw = client.chat.completions.with_raw_response.create(model="agent", messages=ask)
reply, episode = raw.parse(), raw.headers["x-hone-episode"]
assert reply.choices[0].message.content == "3 words", reply
assert (reply.model, reply.usage.prompt_tokens, reply.usage.completion_tokens) == ("agent", 3, 2), reply
[trace] = traces(episode)
[turn] = turns(trace)
assert turn["answer"]["content"] == "3 words" and turn["llm_calls"][0]["tokens_in"] == 3, turn

chunks = list(client.chat.completions.create(model="agent", messages=ask, stream=True, stream_options={"include_usage": True}))
assert "".join(chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices) == "3words", chunks
assert chunks[-1].usage.total_tokens == 5 and chunks[-1].choices == [], chunks[-1]

parameters = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
tools = [{"type": "function", "function": {"name": "weather", "parameters": parameters}}]
raw = client.chat.completions.with_raw_response.create(model="agent", messages=ask, tools=tools)
reply, episode = raw.parse(), raw.headers["x-hone-episode"]
[call] = reply.choices[0].message.tool_calls
assert (call.function.name, call.function.arguments, reply.choices[0].finish_reason) == ("weather", '{"city": "word"}', "tool_calls")
said = ask + [reply.choices[0].message, {"role": "tool", "tool_call_id": call.id, "content": "it rains"}]
with client.chat.completions.stream(model="agent", messages=said, tools=tools) as stream:
    final = stream.get_final_completion()
assert final.choices[0].message.content == "2words", final
[trace] = traces(episode)
assert len(turns(trace)) == 2 and len(trace["segments"]) == 1, "the second call goes on with the first"
assert [message["role"] for message in turns(trace)[1]["input"]] == ["tool"], "only what is new is written"


class Person(BaseModel):
    name: str
    age: int


parsed = client.chat.completions.parse(model="agent", messages=ask, response_format=Person)
assert parsed.choices[0].message.parsed == Person(name="word", age=7), parsed

for wrong, kind in [
    (dict(model="nobody", messages=ask), openai.NotFoundError),
    (dict(model="agent", messages=[{"role": "user", "content": "refuse"}]), openai.BadRequestError),
    (dict(model="agent", messages=[{"role": "user", "content": "fail"}]), openai.InternalServerError),
    (dict(model="agent", messages=ask, temperature=9), openai.BadRequestError),
    (dict(model="agent", messages=[]), openai.BadRequestError),
]:
    try:
        client.chat.completions.create(**wrong)
        raise SystemExit(f"no error for {wrong}")
    except kind as error:
        assert error.body["message"], error
assert [model.id for model in client.models.list()] == ["agent"]
assert any(turn["errors"] for trace in traces() for turn in turns(trace) if turn.get("errors")), "failures are on the record"
