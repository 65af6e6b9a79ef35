"""The web page: the API's own functions, asked for by a browser that signed in with a key."""
