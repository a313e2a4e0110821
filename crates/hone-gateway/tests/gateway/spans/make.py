"""Makes the fixtures beside this file: what unmodified instrumentation of the `openai` SDK exports in protobuf.

make.py genai|openinference PORT, where bench/clients/provider.py answers at the port. Made with openai 3.49.0 and
opentelemetry-exporter-otlp-proto-http 1.45.1, and opentelemetry-instrumentation-openai 0.62.4 (genai) or
openinference-instrumentation-openai 0.1.66 (openinference).
"""

import os
import sys
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

# The events of a failed call tell of the files of this machine.
os.environ["OTEL_SPAN_EVENT_COUNT_LIMIT"] = "0"

import openai
from openinference.instrumentation import using_session
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor

convention, port = sys.argv[1], sys.argv[2]


class Collector(BaseHTTPRequestHandler):
    def log_message(self, *_):
        pass

    def do_POST(self):
        body = self.rfile.read(int(self.headers["content-length"]))
        (Path(__file__).parent / f"{convention}.pb").write_bytes(body)
        self.send_response(200)
        self.send_header("content-length", "0")
        self.end_headers()


collector = HTTPServer(("127.0.0.1", 0), Collector)
threading.Thread(target=collector.serve_forever, daemon=True).start()
provider = TracerProvider(resource=Resource.create({"service.name": "desk"}))
exporter = OTLPSpanExporter(endpoint=f"http://127.0.0.1:{collector.server_port}/v1/traces")
provider.add_span_processor(BatchSpanProcessor(exporter))
if convention == "genai":
    from opentelemetry.instrumentation.openai import OpenAIInstrumentor

    agent = {"gen_ai.operation.name": "invoke_agent", "gen_ai.agent.name": "desk", "gen_ai.conversation.id": "ticket-7"}
    tool = {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "weather", "gen_ai.tool.call.id": "call_1"}
else:
    from openinference.instrumentation.openai import OpenAIInstrumentor

    agent = {"openinference.span.kind": "AGENT", "agent.name": "desk"}
    tool = {"openinference.span.kind": "TOOL", "tool.name": "weather", "tool_call.id": "call_1", "output.value": "it rains"}
OpenAIInstrumentor().instrument(tracer_provider=provider)
tracer = provider.get_tracer("desk")

client = openai.OpenAI(base_url=f"http://127.0.0.1:{port}/v1", api_key="sk-canary-0123456789", max_retries=0)
parameters = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
tools = [{"type": "function", "function": {"name": "weather", "description": "The weather of a city", "parameters": parameters}}]
said = [{"role": "system", "content": "You are a desk agent."}, {"role": "user", "content": "is it raining"}]
http = {"http.request.method": "POST", "http.request.header.authorization": "Bearer sk-canary-0123456789"}
with using_session("ticket-7"), tracer.start_as_current_span("POST /ask", attributes=http):
    with tracer.start_as_current_span("desk", attributes=agent):
        message = client.chat.completions.create(model="agent", messages=said, tools=tools, temperature=0.5).choices[0].message
        with tracer.start_as_current_span("weather", attributes=tool):
            pass
        said += [message.model_dump(exclude_none=True), {"role": "tool", "tool_call_id": "call_1", "content": "it rains"}]
        client.chat.completions.create(model="agent", messages=said, tools=tools, temperature=0.5)
        try:
            client.chat.completions.create(model="agent", messages=[{"role": "user", "content": "fail"}])
        except openai.InternalServerError:
            pass
provider.shutdown()
