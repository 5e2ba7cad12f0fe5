"""What this machine has and lacks, and what to do about it. May import all layers below the command line.

`examination.examine` makes all checks; `packages.install` brings what a package of the system would.

What can be cleaned, how large it is, and what this process remembers. May import all layers below the command line.

All of it is done by services anyway, when its time has come; here a person has it done now, in their own name.
"""
