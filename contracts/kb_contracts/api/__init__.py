"""Models of what goes over HTTP: requests and responses of all services."""
