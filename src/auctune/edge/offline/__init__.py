"""What could have been had, all bids known: programs solved by HiGHS."""
