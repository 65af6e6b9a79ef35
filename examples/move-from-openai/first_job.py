"""Fine-tune and ask, with OpenAI's client alone; OPENAI_BASE_URL and OPENAI_API_KEY say where."""

import time
from pathlib import Path

import openai

DATA = Path(__file__).parents[1] / "first-market" / "data" / "weather.jsonl"
QUESTION = "Weather report for Lisbon: clear, 9 degrees.\nAdvice:"

client = openai.OpenAI()
file = client.files.create(file=DATA, purpose="fine-tune")
job = client.fine_tuning.jobs.create(
    model="gpt-4o-mini-2024-07-18",
    training_file=file.id,
    seed=7,
    hyperparameters={"n_epochs": 6, "learning_rate_multiplier": 10},
)
print(job.id, job.status)
shown = ""
while job.status not in ("succeeded", "failed", "cancelled"):
    time.sleep(2)
    job = client.fine_tuning.jobs.retrieve(job.id)
    newest = client.fine_tuning.jobs.list_events(job.id, limit=1).data
    if newest and newest[0].message != shown:
        shown = newest[0].message
        print(shown)
print(job.id, job.status, job.error.message if job.error else "")
if job.fine_tuned_model is not None:
    answer = client.completions.create(
        model=job.fine_tuned_model, prompt=QUESTION, max_tokens=20, temperature=0, stop="\n"
    )
    print(answer.choices[0].text.strip())
