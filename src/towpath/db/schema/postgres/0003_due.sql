-- When something in the state of a stage is due. Written with the commit of the batch that has changed it.

create table flow_due (
    flow       text    not null,
    stage      text    not null,
    generation integer not null check (generation >= 1),
    operator   integer not null check (operator >= 0),
    shard      integer not null check (shard >= 0),
    -- Milliseconds since 1970, the earliest first; none where nothing is due.
    due        json    not null,
    primary key (flow, stage, generation, operator, shard),
    foreign key (flow, stage) references flow_stage (flow, stage)
);
