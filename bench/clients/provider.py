"""A provider in OpenAI's format for the clients to meet behind the gateway: it answers by rule, so that every answer can be asserted.

Asked with tools, it calls the first one; asked for a schema, it fills it; otherwise it counts the words of the last message. The words
`fail` and `refuse` bring the errors of a provider. Usage: provider.py PORT.
"""

import json
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


def text_of(message):
    content = message.get("content") or ""
    return content if isinstance(content, str) else " ".join(part.get("text", "") for part in content)


def filled(schema):
    kinds = {"string": "word", "integer": 7, "number": 0.5, "boolean": True}
    if schema.get("type") == "object":
        return {name: filled(inner) for name, inner in schema.get("properties", {}).items()}
    if schema.get("type") == "array":
        return [filled(schema.get("items", {}))]
    return schema["enum"][0] if "enum" in schema else kinds.get(schema.get("type"), None)


def answer(body):
    messages = body["messages"]
    last = messages[-1]
    if body.get("tools") and last["role"] == "user":
        function = body["tools"][0]["function"]
        arguments = json.dumps(filled(function["parameters"]))
        call = {"id": "call_1", "type": "function", "function": {"name": function["name"], "arguments": arguments}}
        return {"role": "assistant", "content": None, "tool_calls": [call]}, "tool_calls"
    wanted = body.get("response_format") or {}
    if wanted.get("type") == "json_schema":
        return {"role": "assistant", "content": json.dumps(filled(wanted["json_schema"]["schema"]))}, "stop"
    return {"role": "assistant", "content": f"{len(text_of(last).split())} words"}, "stop"


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def send(self, status, body, kind="application/json"):
        data = body.encode()
        self.send_response(status)
        self.send_header("content-type", kind)
        self.send_header("content-length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        if not self.path.endswith("/chat/completions"):
            prompts = body["prompt"] if isinstance(body["prompt"], list) else [body["prompt"]]
            texts = [f" has {len(prompt.split())} words" for prompt in prompts]
            choices = [{"index": index, "text": text, "finish_reason": "stop", "logprobs": None} for index, text in enumerate(texts)]
            usage = {"prompt_tokens": 4, "completion_tokens": 3, "total_tokens": 7}
            whole = {"id": "provider-1", "object": "text_completion", "created": 1, "model": body["model"], "choices": choices}
            return self.send(200, json.dumps(whole | {"usage": usage}))
        said = text_of(body["messages"][-1])
        if said == "fail":
            return self.send(500, json.dumps({"error": {"message": "out of order", "type": "server_error"}}))
        if said == "refuse":
            return self.send(400, json.dumps({"error": {"message": "not this", "type": "invalid_request_error", "param": "messages"}}))
        message, finish = answer(body)
        n_in = sum(len(text_of(message).split()) for message in body["messages"])
        usage = {"prompt_tokens": n_in, "completion_tokens": 2, "total_tokens": n_in + 2}
        head = {"id": "provider-1", "created": 1, "model": body["model"]}
        if not body.get("stream"):
            choice = {"index": 0, "message": message, "finish_reason": finish, "logprobs": None}
            return self.send(200, json.dumps(head | {"object": "chat.completion", "choices": [choice], "usage": usage}))
        deltas = [{"role": "assistant", "content": ""}]
        for call_idx, call in enumerate(message.get("tool_calls") or []):
            function = call["function"]
            deltas.append({"tool_calls": [{"index": call_idx, "id": call["id"], "type": "function",
                                           "function": {"name": function["name"], "arguments": ""}}]})
            deltas += [{"tool_calls": [{"index": call_idx, "function": {"arguments": part}}]} for part in function["arguments"]]
        deltas += [{"content": part} for part in (message["content"] or "").split(" ")]
        chunks = [{"choices": [{"index": 0, "delta": delta, "finish_reason": None}]} for delta in deltas]
        chunks += [{"choices": [{"index": 0, "delta": {}, "finish_reason": finish}]}, {"choices": [], "usage": usage}]
        lines = [json.dumps(head | {"object": "chat.completion.chunk"} | chunk) for chunk in chunks] + ["[DONE]"]
        return self.send(200, "".join(f"data: {line}\n\n" for line in lines), "text/event-stream")


ThreadingHTTPServer(("127.0.0.1", int(sys.argv[1])), Handler).serve_forever()
