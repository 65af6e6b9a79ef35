"""HTTP whose heads have an end: what is read of a request before anybody can look at it.

uvicorn takes in headers of any length, from anybody, and holds them until they are over.
"""

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

HEAD_BYTES = 64 * 1024


class ShortHeads(HttpToolsProtocol):
    """A connection that is ended where more comes than a head has, and no body in it.

    What arrives together is looked at together: some hundred kilobytes may come through.
    """

    _is_in_head = False
    # Since the last byte of a body, or the beginning of a request.
    _held = 0

    def data_received(self, data: bytes) -> None:
        """Take in what came."""
        self._held += len(data)
        super().data_received(data)
        if self._held <= HEAD_BYTES or self.transport.is_closing():
            return
        if self._is_in_head:
            self.send_400_response(f"The head of the request has more than {HEAD_BYTES} bytes.")
        else:
            # An answer may be on its way.
            self.transport.close()

    def on_message_begin(self) -> None:
        """A request begins."""
        self._is_in_head, self._held = True, 0
        super().on_message_begin()

    def on_headers_complete(self) -> None:
        """Its head is there."""
        self._is_in_head = False
        super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        """Some of its body is there."""
        self._held = 0
        super().on_body(body)

    def on_message_complete(self) -> None:
        """All of it is there."""
        self._held = 0
        super().on_message_complete()
