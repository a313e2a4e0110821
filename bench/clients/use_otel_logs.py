"""OpenTelemetry: the `openai` SDK under `opentelemetry-instrumentation-openai-v2`, which tells in log records what was said.

An agent asks twice and runs a tool in between. Spans and log records go their own ways to the gateway, the records last, and become one trace
that says the same as what the gateway recorded of the calls themselves. This release has an event per message, as the older conventions do;
`use_otel_events.py` is the same under one that has a single event with all of it.
"""

import os
import time

os.environ.setdefault("OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT", "true")

import openai  # noqa: E402
from opentelemetry.exporter.otlp.proto.http._log_exporter import OTLPLogExporter  # noqa: E402
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter  # noqa: E402
from opentelemetry.instrumentation.openai_v2 import OpenAIInstrumentor  # noqa: E402
from opentelemetry.sdk._logs import LoggerProvider  # noqa: E402
from opentelemetry.sdk._logs.export import BatchLogRecordProcessor  # noqa: E402
from opentelemetry.sdk.trace import TracerProvider  # noqa: E402
from opentelemetry.sdk.trace.export import BatchSpanProcessor  # noqa: E402
from record import traces, turns  # noqa: E402

URL = os.environ["GATEWAY_URL"]


def agent(name):
    """Asks about the weather, instrumented."""
    spans, logs = TracerProvider(), LoggerProvider()
    spans.add_span_processor(BatchSpanProcessor(OTLPSpanExporter(endpoint=f"{URL}/traces")))
    logs.add_log_record_processor(BatchLogRecordProcessor(OTLPLogExporter(endpoint=f"{URL}/logs"), schedule_delay_millis=60_000))
    OpenAIInstrumentor().instrument(tracer_provider=spans, logger_provider=logs)
    client = openai.OpenAI(base_url=URL, api_key="sk-canary-0123456789", max_retries=0)
    parameters = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
    tools = [{"type": "function", "function": {"name": "weather", "parameters": parameters}}]
    said = [{"role": "system", "content": "You are a desk agent."}, {"role": "user", "content": f"is it raining, {name}"}]
    whole = {"gen_ai.operation.name": "invoke_agent", "gen_ai.agent.name": "desk", "gen_ai.conversation.id": name}
    with spans.get_tracer("desk").start_as_current_span("invoke_agent desk", attributes=whole):
        message = client.chat.completions.create(model="agent", messages=said, tools=tools).choices[0].message
        [call] = message.tool_calls
        said += [message.model_dump(exclude_none=True), {"role": "tool", "tool_call_id": call.id, "content": "it rains"}]
        client.chat.completions.create(model="agent", messages=said, tools=tools)
    assert spans.force_flush(), "the spans were not taken"
    # What was said comes late, and is waited for.
    time.sleep(2.5)
    assert logs.force_flush(), "the log records were not taken"


def told(name):
    """What was told of the agent, once it is all there, and what the gateway recorded itself."""
    for _ in range(100):
        found = [trace for trace in traces() if f"is it raining, {name}" in str(trace)]
        told = [trace for trace in found if trace.get("metadata", {}).get("conversation_id") == name]
        if told:
            return told[0], *[trace for trace in found if trace not in told]
        time.sleep(0.2)
    raise SystemExit(f"there is no trace of {name}")


def main(name):
    agent(name)
    trace, *recorded = told(name)
    first, second = turns(trace)
    assert [message["role"] for message in first["input"]] == ["system", "user"], first
    assert first["input"][1]["content"] == f"is it raining, {name}", first
    assert first["answer"]["tool_calls"][0]["name"] == "weather", first
    assert [(message["role"], message["content"]) for message in second["input"]] == [("tool", "it rains")], second
    assert second["answer"]["content"] == "2 words", second
    assert trace["metadata"]["agent_name"] == "desk" and "sk-canary" not in str(trace), trace
    said = [(turn["answer"].get("content"), turn["llm_calls"][0]["tokens_in"]) for turn in (first, second)]
    own = [(turn["answer"].get("content"), turn["llm_calls"][0]["tokens_in"]) for one in recorded for turn in turns(one)]
    assert sorted(said, key=str) == sorted(own, key=str), (said, own)
    print(f"{name}: a trace of 2 turns, as recorded by the gateway itself")


if __name__ == "__main__":
    main("logs")
