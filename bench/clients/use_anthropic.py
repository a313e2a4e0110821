"""The `anthropic` SDK against a provider of OpenAI's format: messages, a stream, tools over two turns, errors, and the record.

With a model of the machine: counts of tokens and outputs that follow a schema.
"""

import os

import anthropic
from pydantic import BaseModel
from record import traces, turns

client = anthropic.Anthropic(base_url=os.environ["GATEWAY_URL"].removesuffix("/v1"), api_key="unused", max_retries=0)
ask = [{"role": "user", "content": "how many words"}]

raw = client.messages.with_raw_response.create(model="agent", max_tokens=99, system="be brief", messages=ask)
reply, episode = raw.parse(), raw.headers["x-hone-episode"]
assert (reply.content[0].text, reply.stop_reason, reply.model) == ("3 words", "end_turn", "agent"), reply
assert (reply.usage.input_tokens, reply.usage.output_tokens) == (5, 2), reply
[trace] = traces(episode)
assert raw.request_id == turns(trace)[0]["extra"]["id"], "what a request is called leads to its record"
assert [message["role"] for message in turns(trace)[0]["input"]] == ["system", "user"], trace

with client.messages.stream(model="agent", max_tokens=99, messages=ask) as stream:
    assert "".join(stream.text_stream) == "3words"
    final = stream.get_final_message()
assert final.usage.output_tokens == 2 and final.stop_reason == "end_turn", final

tools = [{"name": "weather", "input_schema": {"type": "object", "properties": {"city": {"type": "string"}}}}]
with client.messages.stream(model="agent", max_tokens=99, messages=ask, tools=tools) as stream:
    reply, episode = stream.get_final_message(), stream.response.headers["x-hone-episode"]
[call] = [block for block in reply.content if block.type == "tool_use"]
assert (call.name, call.input, reply.stop_reason) == ("weather", {"city": "word"}, "tool_use"), reply
result = [{"type": "tool_result", "tool_use_id": call.id, "content": "it rains"}]
said = ask + [{"role": "assistant", "content": reply.content}, {"role": "user", "content": result}]
reply = client.messages.create(model="agent", max_tokens=99, messages=said, tools=tools)
assert reply.content[0].text == "2 words", reply
[trace] = traces(episode)
assert len(turns(trace)) == 2 and len(trace["segments"]) == 1, "the second call goes on with the first"

for wrong, kind in [
    (dict(model="nobody", max_tokens=9, messages=ask), anthropic.NotFoundError),
    (dict(model="agent", max_tokens=9, messages=[]), anthropic.BadRequestError),
    (dict(model="agent", max_tokens=9, messages=[{"role": "user", "content": "fail"}]), anthropic.InternalServerError),
]:
    try:
        client.messages.create(**wrong)
        raise SystemExit(f"no error for {wrong}")
    except kind as error:
        assert error.body["error"]["message"], error


class Verdict(BaseModel):
    yes: bool


reply = client.messages.create(model="own", max_tokens=5, messages=ask)
counted = client.messages.count_tokens(model="own", messages=ask)
assert counted.input_tokens == reply.usage.input_tokens + reply.usage.cache_read_input_tokens, (counted, reply)
parsed = client.messages.parse(model="own", max_tokens=99, messages=ask, output_format=Verdict)
assert isinstance(parsed.parsed_output, Verdict), parsed
assert [model.id for model in client.models.list(limit=2)] == ["agent", "own", "desk"], "in pages"
for elsewhere in [lambda: client.messages.batches.list(), lambda: client.models.retrieve("nobody")]:
    try:
        elsewhere()
        raise SystemExit("no error")
    except anthropic.NotFoundError as error:
        assert error.body["error"]["type"] == "not_found_error" and error.request_id, error
