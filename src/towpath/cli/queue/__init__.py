"""`towpath queue` and `towpath event`: inboxes and messages, and what happened."""
