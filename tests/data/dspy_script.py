"""DSPy fine-tunes a student on what a teacher has answered, then asks it."""

import json

import dspy
from dspy.utils import DummyLM

MODEL = "gpt-4o-mini-2024-07-18"

rows = [
    dspy.Example(question=f"What is {n} and {n + 1}?", answer=str(2 * n + 1)).with_inputs(
        "question"
    )
    for n in range(20)
]
student, teacher = (dspy.Predict("question -> answer") for _ in range(2))
student.set_lm(dspy.LM(f"openai/{MODEL}", max_tokens=20))
# A model that is right; all else goes by the network.
teacher.set_lm(DummyLM([{"answer": row.answer} for row in rows]))
tuner = dspy.BootstrapFinetune(
    metric=lambda example, found, trace=None: example.answer == found.answer,
    train_kwargs={"n_epochs": 1},
    num_threads=1,
)
program = tuner.compile(student, trainset=rows, teacher=teacher)
(tuned,) = (one.lm for one in program.predictors())
(text,) = tuned("What is 3 and 4?")
print(json.dumps({"model": tuned.model, "text": text}))
