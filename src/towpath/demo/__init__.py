"""What `towpath demo` plays: a shop's flow, the same under supervision, and two workers on the queue."""
