"""A measured process: reads one request a line, answers each with one line. Standard library only: peers import it.

Import it before other processes are started: from then on the output is for answers alone, and what libraries and their
processes print goes to the errors' stream.
"""

import json
import os
import sys
import traceback


_answers = os.fdopen(os.dup(1), "w")
os.dup2(2, 1)


def serve(handle):
    """`handle(request) -> dict` for each line of the input."""
    print(json.dumps({"ready": True}), file=_answers, flush=True)
    for line in sys.stdin:
        try:
            answer = handle(json.loads(line))
        except Exception:  # told to whoever asked; this process goes on
            answer = {"error": traceback.format_exc()[-2000:]}
        print(json.dumps(answer), file=_answers, flush=True)
