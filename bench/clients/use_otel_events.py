"""OpenTelemetry: `use_otel_logs.py` under a release that tells all of a call in one event, as the newer conventions do."""

import os

os.environ["OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT"] = "EVENT_ONLY"

from use_otel_logs import main  # noqa: E402

main("events")
