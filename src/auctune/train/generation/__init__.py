"""Generation of answers: many requests at once, whatever their adapters, on one base.

`Engine` reads prompts and draws tokens, `KvBatch` holds keys and values of what was read,
`AnswerText` makes text of tokens.
"""
