"""OpenTelemetry: the `openai` SDK under `openinference-instrumentation-openai`, exported by `opentelemetry-exporter-otlp-proto-http`.

An agent asks twice and runs a tool in between. Its spans go to the gateway plain, packed, and as an exporter for Langfuse sends them, and
become one trace each, which says the same as what the gateway recorded of the calls themselves.
"""

import base64
import os
import time

import openai
from openinference.instrumentation import using_session
from openinference.instrumentation.openai import OpenAIInstrumentor
from opentelemetry.exporter.otlp.proto.http import Compression
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExportResult
from record import traces, turns

URL = os.environ["GATEWAY_URL"]
LANGFUSE = URL.removesuffix("/v1") + "/api/public/otel/v1/traces"
BASIC = "Basic " + base64.b64encode(b"pk-lf-1:sk-lf-1").decode()


class Watched(OTLPSpanExporter):
    """The exporter as it is; what it returns is looked at."""

    def export(self, spans):
        result = super().export(spans)
        results.append((result, len(spans)))
        return result


def agent(session, exporter):
    """Asks about the weather, instrumented, and gives the episode that the gateway recorded."""
    provider = TracerProvider(resource=Resource.create({"service.name": "desk"}))
    provider.add_span_processor(BatchSpanProcessor(exporter))
    OpenAIInstrumentor().instrument(tracer_provider=provider)
    tracer = provider.get_tracer("desk")
    client = openai.OpenAI(base_url=URL, api_key="sk-canary-0123456789", max_retries=0)
    parameters = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
    tools = [{"type": "function", "function": {"name": "weather", "parameters": parameters}}]
    said = [{"role": "system", "content": "You are a desk agent."}, {"role": "user", "content": f"is it raining, {session}"}]
    with using_session(session), tracer.start_as_current_span("POST /ask", attributes={"http.request.header.authorization": BASIC}):
        with tracer.start_as_current_span("desk", attributes={"openinference.span.kind": "AGENT", "agent.name": "desk"}):
            raw = client.chat.completions.with_raw_response.create(model="agent", messages=said, tools=tools, temperature=0.5)
            message = raw.parse().choices[0].message
            [call] = message.tool_calls
            tool = {"openinference.span.kind": "TOOL", "tool.name": call.function.name, "tool_call.id": call.id}
            with tracer.start_as_current_span("weather", attributes=tool):
                time.sleep(0.01)
            said += [message.model_dump(exclude_none=True), {"role": "tool", "tool_call_id": call.id, "content": "it rains"}]
            client.chat.completions.create(model="agent", messages=said, tools=tools, temperature=0.5)
            try:
                client.chat.completions.create(model="agent", messages=[{"role": "user", "content": "fail"}])
                raise SystemExit("no error")
            except openai.InternalServerError:
                pass
    assert provider.force_flush(), "the spans were not taken"
    provider.shutdown()
    OpenAIInstrumentor().uninstrument()
    return raw.headers["x-hone-episode"]


def told_by_spans(session):
    """The trace of a session, once it is all there."""
    for _ in range(100):
        found = [trace for trace in traces() if trace.get("metadata", {}).get("conversation_id") == session]
        if found:
            [trace] = found
            return trace
        time.sleep(0.2)
    raise SystemExit(f"there is no trace of {session}")


results = []
ways = {
    "plain": Watched(endpoint=f"{URL}/traces"),
    "gzip": Watched(endpoint=f"{URL}/traces", compression=Compression.Gzip),
    "langfuse": Watched(endpoint=LANGFUSE, headers={"authorization": BASIC}),
}
for session, exporter in ways.items():
    results.clear()
    episode = agent(session, exporter)
    assert results == [(SpanExportResult.SUCCESS, 6)], results
    trace = told_by_spans(session)
    first, second, failed = turns(trace)
    assert [message["role"] for message in first["input"]] == ["system", "user"], first
    assert first["input"][1]["content"] == f"is it raining, {session}", first
    assert first["answer"]["tool_calls"][0]["name"] == "weather", first
    [tool] = first["tool_calls"]
    assert (tool["name"], tool["success"]) == ("weather", True) and tool["duration_ms"] >= 10, tool
    assert [(message["role"], message["content"]) for message in second["input"]] == [("tool", "it rains")], second
    assert second["answer"]["content"] == "2 words", second
    call = second["llm_calls"][0]
    assert call["model"] == "agent" and call["tokens_out"] == 2 and call["duration_ms"] > 0, call
    assert "out of order" in failed["errors"][0]["message"], failed
    assert trace["metadata"]["agent_name"] == "desk" and trace["metadata"]["service"] == "desk", trace["metadata"]
    assert "sk-canary" not in str(trace) and BASIC not in str(trace), "keys are not kept"
    [recorded] = traces(episode)
    told = [(turn["answer"].get("content"), turn["llm_calls"][0]["tokens_in"]) for turn in (first, second)]
    assert told == [(turn["answer"].get("content"), turn["llm_calls"][0]["tokens_in"]) for turn in turns(recorded)], "both say the same"
    print(f"{session}: 6 spans taken, a trace of 3 turns, as recorded by the gateway itself")
