"""`litellm` as a client: a whole answer, a stream, and the record."""

import os

os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"
import litellm
from record import traces, turns

litellm.telemetry = False
ask = [{"role": "user", "content": "how many words"}]
common = dict(model="openai/agent", api_base=os.environ["GATEWAY_URL"], api_key="unused", messages=ask, num_retries=0)

reply = litellm.completion(**common, extra_headers={"x-hone-episode": "by-litellm"})
assert reply.choices[0].message.content == "3 words" and reply.usage.total_tokens == 5, reply
text = "".join(chunk.choices[0].delta.content or "" for chunk in litellm.completion(**common, stream=True))
assert text == "3words", text
try:
    litellm.completion(**common | {"model": "openai/nobody"})
    raise SystemExit("no error for an unknown model")
except litellm.NotFoundError as error:
    assert "nobody" in str(error)
assert any(turn["answer"]["content"] == "3 words" for trace in traces() for turn in turns(trace))
