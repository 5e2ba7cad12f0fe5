"""Pages of the error desk: cases, groups, rehearsals, bulk jobs, policies, lanes, learned corrections."""
