"""Visits sites politely, level by level, and writes down every visit before the next one. Knows nothing of Towpath.

What is left to do is worked out from what was written down, and from nothing else: a crawl that was killed and goes on
comes to the same pages as one that was not.
"""
