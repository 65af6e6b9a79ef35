"""A fine-tuning script as people have it: it was written for OpenAI, and knows nothing else."""

import json
import time
from pathlib import Path

from openai import OpenAI

MODEL = "gpt-4o-mini-2024-07-18"
QUESTION = [
    {"role": "system", "content": "Marv is a factual chatbot that is also sarcastic."},
    {"role": "user", "content": "How far is the Moon from Earth?"},
]

rows = [
    {"messages": [*QUESTION, {"role": "assistant", "content": f"About {n} km. Try walking."}]}
    for n in range(384_400, 384_420)
]
data = Path("data.jsonl")
data.write_text("".join(json.dumps(row) + "\n" for row in rows))

client = OpenAI()

file = client.files.create(file=data.open("rb"), purpose="fine-tune")
job = client.fine_tuning.jobs.create(
    training_file=file.id,
    model=MODEL,
    method={"type": "supervised", "supervised": {"hyperparameters": {"n_epochs": 2}}},
    suffix="marv",
)
while job.status not in ("succeeded", "failed", "cancelled"):
    time.sleep(0.2)
    job = client.fine_tuning.jobs.retrieve(job.id)
assert job.status == "succeeded", job.error
tuned = job.fine_tuned_model
assert tuned is not None
assert tuned.startswith(f"ft:{MODEL}:")

for event in client.fine_tuning.jobs.list_events(job.id, limit=10):
    print(event.created_at, event.level, event.message)
checkpoints = list(client.fine_tuning.jobs.checkpoints.list(job.id))
for checkpoint in checkpoints:
    print(checkpoint.step_number, checkpoint.metrics.train_loss)
metrics = client.files.content(job.result_files[0]).text
assert metrics.startswith("step,train_loss"), metrics[:80]
assert tuned in [model.id for model in client.models.list()]

for model in (tuned, *(one.fine_tuned_model_checkpoint for one in checkpoints)):
    answer = client.chat.completions.create(
        model=model, messages=QUESTION, max_tokens=20, temperature=0
    )
    print(model, repr(answer.choices[0].message.content), answer.usage)

stream = client.chat.completions.create(
    model=tuned, messages=QUESTION, max_tokens=20, temperature=0, stream=True
)
text = "".join(chunk.choices[0].delta.content or "" for chunk in stream if chunk.choices)
whole = client.chat.completions.create(model=tuned, messages=QUESTION, max_tokens=20, temperature=0)
assert text == whole.choices[0].message.content
print(json.dumps({"model": tuned, "checkpoints": len(checkpoints), "streamed": text}))
