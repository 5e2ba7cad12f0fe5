"""What this machine has and lacks, and what to do about it. May import all layers below the command line.

`examination.examine` makes all checks; `packages.install` brings what a package of the system would.
"""
