-- What somebody should look at is found and counted at once among millions that are done. These two cost a message that
-- is handled well next to nothing.
create index message_failed on message (state, seq) where state = 'ERR' or state = 'DEAD';
create index message_failed_in on message (inbox, state, seq) where state = 'ERR' or state = 'DEAD';
