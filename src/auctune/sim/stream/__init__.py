"""Markets too large to hold: tasks read from parquet, decisions written as they come."""
