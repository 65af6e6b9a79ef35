"""Fine-tuning by litellm's functions for OpenAI."""

import json
import time
from typing import Any

import litellm

MODEL = "gpt-4o-mini-2024-07-18"
QUESTION = [{"role": "user", "content": "Is it open?"}]
OPENAI: dict[str, Any] = {"custom_llm_provider": "openai"}

row = json.dumps({"messages": [*QUESTION, {"role": "assistant", "content": "Until six."}]})
data = f"{row}\n".encode() * 20

file = litellm.create_file(file=("data.jsonl", data), purpose="fine-tune", **OPENAI)
jobs = [
    litellm.create_fine_tuning_job(
        model=MODEL,
        training_file=file.id,
        hyperparameters={"n_epochs": epochs},
        suffix="shop",
        **OPENAI,
    ).id
    # The second is still at work when it is cancelled.
    for epochs in (1, 50)
]
listed = litellm.list_fine_tuning_jobs(limit=2, **OPENAI)
assert [job.id for job in listed.data] == jobs[::-1]
cancelled = litellm.cancel_fine_tuning_job(fine_tuning_job_id=jobs[1], **OPENAI)
assert cancelled.status == "cancelled", cancelled

job = litellm.retrieve_fine_tuning_job(fine_tuning_job_id=jobs[0], **OPENAI)
while job.status not in ("succeeded", "failed", "cancelled"):
    time.sleep(0.2)
    job = litellm.retrieve_fine_tuning_job(fine_tuning_job_id=jobs[0], **OPENAI)
assert job.status == "succeeded", job
model = job.fine_tuned_model
metrics = litellm.file_content(file_id=job.result_files[0], **OPENAI).content
assert metrics.startswith(b"step,train_loss"), metrics[:80]

asked = {"model": model, "messages": QUESTION, "max_tokens": 20, "temperature": 0}
text = litellm.completion(**asked).choices[0].message.content
chunks = litellm.completion(**asked, stream=True)
assert "".join(chunk.choices[0].delta.content or "" for chunk in chunks) == text

assert file.id in [one.id for one in litellm.file_list(**OPENAI)]
assert litellm.file_retrieve(file_id=file.id, **OPENAI).status == "processed"
assert litellm.file_delete(file_id=file.id, **OPENAI).deleted
print(json.dumps({"model": model, "text": text}))
