"""The error desk: each record that failed in a flow is a case until it is loaded, sent back or dismissed.

docs/explanation/desk.md has the numbered acts that the code names.
"""
