"""Every chart as one function from data to an altair chart."""
