-- What somebody should look at is found and counted at once among millions that are done. These two cost a message that
-- is handled well next to nothing. `seq + 0`, so that no plan can walk the primary key instead.
create index message_failed on message (state, (seq + 0)) where state = 'ERR' or state = 'DEAD';
create index message_failed_in on message (inbox, state, (seq + 0)) where state = 'ERR' or state = 'DEAD';
