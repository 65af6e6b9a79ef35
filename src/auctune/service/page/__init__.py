"""Web page of the service, on the functions of the API."""
