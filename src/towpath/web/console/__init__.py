"""The console: pages from which a person runs all of it, written on the server.

A page is a template and a handler that calls the same parts as the JSON API does. What all of them share:

- A browser has a session (`access/sessions.py`). `web/auth.py` recognises it as it does keys, and lets a change in only
  with the token of the session's forms.
- `layout/page.py` renders. Nothing that is shown is trusted: every text is escaped, and no script or style stands in a
  page.
- A form posts to a route of the page, which makes the change with its row in the audit trail (`layout/action.py`), and
  goes back to the page with a sentence of what was done. A page works without JavaScript.
- `layout/live.py` tells open pages that something has changed; a page then asks for itself again and puts the parts
  that are marked `data-live` in place (`static/console.js`). Answers are shared for a moment between pages of the same
  address.

May import what `web` may.
"""
