"""Worker processes: handles, channels, launchers and supervision.

A worker is a module with a function `main(parent, argument)`, and `MESSAGES`
(`auctune.engine.messages`). A launcher starts it (`local`: on this machine; `ray`: in an actor of a
Ray cluster), and a supervisor restarts it. torch is imported in workers alone.

Launchers implement the protocols of `worker`. Which one a zone or a run uses is decided in
`auctune.service.zones.auction.kind`, by the setting `executor`.
"""
