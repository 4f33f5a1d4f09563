"""Grades outputs with a model: tacho serve --grade-command 'python3 examples/grade/judge.py http://localhost:8001 MODEL'."""

import json
import re
import sys
import urllib.request

url, model = sys.argv[1:3]
QUESTION = "Is this answer correct and complete? Reply with a number from 0 to 10.\n\nQuestion: {request}\n\nAnswer: {output}"

for line in sys.stdin:
    row = json.loads(line)
    messages = [{"role": "user", "content": QUESTION.format(**row)}]
    body = json.dumps({"model": model, "messages": messages, "temperature": 0, "max_tokens": 8}).encode()
    request = urllib.request.Request(url + "/v1/chat/completions", body, {"Content-Type": "application/json"})
    with urllib.request.urlopen(request) as response:
        reply = json.load(response)["choices"][0]["message"]["content"]
    number = re.search(r"\d+(\.\d+)?", reply)
    print(json.dumps({"judge": min(float(number.group()), 10) / 10 if number else 0}), flush=True)
