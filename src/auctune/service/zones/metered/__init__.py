"""What metered zones share: nothing is promised, an estimate is shown, and what is used is charged.

At admission the owner's cap is set aside. Each slot that was used is charged by its number, once;
what is set aside and was not used is released at the end. Nothing is ever charged beyond the cap.
"""
