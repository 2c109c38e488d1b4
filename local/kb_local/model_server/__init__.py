"""An embedding provider on this machine that speaks the OpenAI HTTP API."""
