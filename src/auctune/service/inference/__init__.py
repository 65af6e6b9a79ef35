"""Answers of bases and of users' fine-tuned models, as OpenAI's API has them."""
