"""The `openai` SDK: chats, responses and completions, whole and streamed, with a provider and with a model of the machine.

Tools over two turns, schemas, several answers, log-probs, errors, and what of it is on the record.
"""

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
assert raw.request_id == turn["extra"]["id"], "what a request is called leads to its record"
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
assert [model.id for model in client.models.list()] == ["agent", "own", "desk"]
assert any(turn["errors"] for trace in traces() for turn in turns(trace) if turn.get("errors")), "failures are on the record"

# Several answers and their tokens, from a model of the machine.
raw = client.chat.completions.with_raw_response.create(model="own", messages=ask, n=2, logprobs=True, top_logprobs=2, max_tokens=8, seed=1)
reply = raw.parse()
assert [choice.index for choice in reply.choices] == [0, 1], reply
tokens = reply.choices[1].logprobs.content
assert tokens and all(token.logprob <= 0 and len(token.top_logprobs) == 2 for token in tokens), tokens
[trace] = traces(raw.headers["x-hone-episode"])
[turn] = turns(trace)
sampled = [turn["sampled"]] + [other["sampled"] for other in turn["extra"]["others"]]
assert sum(len(one["ids"]) for one in sampled) == reply.usage.completion_tokens, "every answer is on the record with its tokens"
chunks = list(client.chat.completions.create(model="own", messages=ask, n=2, max_tokens=8, seed=1, stream=True))
said = ["".join(part.delta.content or "" for chunk in chunks for part in chunk.choices if part.index == index) for index in (0, 1)]
assert said == [choice.message.content for choice in reply.choices], "a stream says the same"

# Responses: a provider that speaks another format, tools, and what was said before from the record.
raw = client.responses.with_raw_response.create(model="agent", input="how many words", instructions="count")
first = raw.parse()
assert (first.output_text, first.status, first.usage.total_tokens) == ("3 words", "completed", 6), first
second = client.responses.create(model="agent", input="and now", previous_response_id=first.id)
assert second.output_text == "2 words" and second.previous_response_id == first.id, second
[trace] = traces(raw.headers["x-hone-episode"])
assert [turn["extra"]["id"] for turn in turns(trace)] == [first.id, second.id], "both are turns of one episode"

function = {"type": "function", "name": "weather", "parameters": parameters, "strict": True}
called = client.responses.create(model="agent", input="how many words", tools=[function])
[call] = called.output
assert (call.type, call.name, call.arguments) == ("function_call", "weather", '{"city": "word"}'), called
result = {"type": "function_call_output", "call_id": call.call_id, "output": "it rains"}
kinds = []
with client.responses.stream(model="agent", input=[result], previous_response_id=called.id, tools=[function]) as stream:
    for event in stream:
        kinds.append(event.type)
    assert stream.get_final_response().output_text == "2words", stream
assert kinds[0] == "response.created" and kinds[-1] == "response.completed", kinds
with client.responses.stream(model="agent", input="how many words", tools=[function]) as stream:
    arguments = [event.arguments for event in stream if event.type == "response.function_call_arguments.done"]
assert arguments == ['{"city": "word"}'], arguments
parsed = client.responses.parse(model="agent", input="how many words", text_format=Person)
assert parsed.output_parsed == Person(name="word", age=7), parsed
own = client.responses.create(model="own", input="how many words", max_output_tokens=5)
assert own.usage.output_tokens <= 5 and own.status in ("completed", "incomplete"), own
again = client.responses.create(model="own", input=[{"role": "user", "content": "how many words"}, *own.output, ask[0]], max_output_tokens=5)
assert again.usage.input_tokens > own.usage.input_tokens, again
unstored = client.responses.create(model="own", input="hi", max_output_tokens=5, store=False, include=["reasoning.encrypted_content"])
assert unstored.store is False, unstored
for wrong, kind in [
    (dict(previous_response_id="resp_nobody"), openai.NotFoundError),
    (dict(previous_response_id=unstored.id), openai.NotFoundError),
    (dict(truncation="auto"), openai.BadRequestError),
    (dict(tools=[{"type": "web_search"}]), openai.BadRequestError),
]:
    try:
        client.responses.create(model="agent", input="hi", **wrong)
        raise SystemExit(f"no error for {wrong}")
    except kind as error:
        assert error.body["message"], error

# Completions.
passed = client.completions.create(model="agent", prompt=["how many words", "two words"])
assert [choice.text for choice in passed.choices] == [" has 3 words", " has 2 words"], passed
plain = client.completions.create(model="own", prompt="how many", max_tokens=6, n=2, logprobs=1, seed=4)
assert len(plain.choices) == 2 and plain.id.startswith("cmpl-"), plain
assert len(plain.choices[0].logprobs.tokens) == len(plain.choices[0].logprobs.top_logprobs) > 0, plain
streamed = client.completions.create(model="own", prompt="how many", max_tokens=6, seed=4, stream=True)
assert "".join(chunk.choices[0].text for chunk in streamed) == plain.choices[0].text
print("chats, responses and completions: as expected")
