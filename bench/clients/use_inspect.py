"""`inspect-ai` running a small evaluation through the name of an agent."""

import os
import tempfile

from inspect_ai import Task, eval as evaluate
from inspect_ai.dataset import Sample
from inspect_ai.model import get_model
from inspect_ai.scorer import includes
from inspect_ai.solver import generate
from record import traces

before = len(traces())
samples = [Sample(input="one two three", target="3 words"), Sample(input="one two", target="2 words"), Sample(input="one", target="9 words")]
model = get_model("openai-api/hone/desk", base_url=os.environ["GATEWAY_URL"], api_key="unused")
with tempfile.TemporaryDirectory() as logs:
    [log] = evaluate(Task(dataset=samples, solver=generate(), scorer=includes()), model=model, log_dir=logs, display="none")
assert log.status == "success", log.error
accuracy = log.results.scores[0].metrics["accuracy"].value
assert abs(accuracy - 2 / 3) < 1e-6, accuracy
after = traces()
assert len(after) == before + 3, "every sample is a trace"
versions = [trace["metadata"]["agent"]["version"] for trace in after if "agent" in trace.get("metadata", {})]
assert versions == ["v1"] * 3, versions
