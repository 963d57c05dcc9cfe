"""Parts that know nothing of this application. No module here imports `agent`."""
