"""What the gateway has recorded, as `hone trace export` tells it."""

import json
import os
import subprocess


def traces(episode=None):
    """All traces, or those of one episode."""
    command = [os.environ["GATEWAY_BINARY"], "--folder", os.environ["GATEWAY_RECORDS"], "trace", "export", "--format", "hone"]
    lines = subprocess.run(command, check=True, capture_output=True, text=True).stdout.splitlines()
    found = [json.loads(line) for line in lines]
    return [trace for trace in found if episode in (None, trace["id"])]


def turns(trace):
    return [turn for segment in trace["segments"] for turn in segment["turns"]]
