"""HTTP API: OpenAI's routes for files and fine-tuning jobs, and routes of this service."""
