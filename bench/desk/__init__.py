"""The error desk: taking errors in, lists over a million cases, replay of a group, release from a lane."""
