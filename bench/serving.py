"""A measured process: reads one request a line, answers each with one line. Standard library only: peers import it."""

import json
import os
import sys
import traceback


def serve(handle):
    """`handle(request) -> dict` for each line of the input. What libraries print goes to the errors' stream."""
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    print(json.dumps({"ready": True}), file=answers, flush=True)
    for line in sys.stdin:
        try:
            answer = handle(json.loads(line))
        except Exception:  # told to whoever asked; this process goes on
            answer = {"error": traceback.format_exc()[-2000:]}
        print(json.dumps(answer), file=answers, flush=True)
