"""The error desk: what failed in flows, each as a case, until it is loaded, sent back or dismissed by a person or rule.

docs/explanation/desk.md has the numbered acts that the code names. In short: error records are taken in exactly once
(`intake`), a policy decides, what is to be tried again goes through an outbox table (`relay`) into a lane or straight
back into the flow, lanes release what is due (`replayer`), and outcomes of the flow settle cases.

May import `flow`, `actors`, `queue`, `log`, `access`, `notify`, `db` and the core; not `supervision`, `boundary` and
`catalog`.
"""
