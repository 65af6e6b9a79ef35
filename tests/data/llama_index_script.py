"""llama-index fine-tunes on a file, then asks the model."""

import json
import time
from pathlib import Path

from llama_index.core.llms import ChatMessage
from llama_index.finetuning import OpenAIFinetuneEngine

MODEL = "gpt-4o-mini-2024-07-18"

rows = [
    {
        "messages": [
            {"role": "system", "content": "You answer in a word."},
            {"role": "user", "content": f"What is {n} and {n + 1}?"},
            {"role": "assistant", "content": f"It is {2 * n + 1}."},
        ]
    }
    for n in range(20)
]
data = Path("data.jsonl")
data.write_text("".join(json.dumps(row) + "\n" for row in rows))

# Its check of the data counts tokens by a table that it would download.
engine = OpenAIFinetuneEngine(MODEL, str(data), validate_json=False)
engine.finetune()
while engine.get_current_job().status not in ("succeeded", "failed", "cancelled"):
    time.sleep(0.2)
model = engine.get_finetuned_model(temperature=0, max_tokens=20)
assert model.metadata.context_window > 0
question = [ChatMessage(role="user", content="What is 3 and 4?")]
text = model.chat(question).message.content
assert "".join(part.delta or "" for part in model.stream_chat(question)) == text
print(json.dumps({"model": model.model, "text": text}))
