-- The messages of actors, of targets of notices and of rehearsals in their order: there is a page for each of these inboxes,
-- however many millions are in others. It costs the messages that people send nothing. `seq + 0`, so that
-- no plan can walk the primary key instead.
create index message_own on message (inbox, (seq + 0))
    where substr(inbox, 1, 6) = 'actor:' or substr(inbox, 1, 7) = 'notify:' or inbox = 'desk-rehearsals';
