"""The HTTP API: OpenAI's routes for files and fine-tuning jobs, and the market's own."""
