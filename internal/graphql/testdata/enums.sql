-- Tables whose rows are the values of enums. Loaded by a superuser into an empty database.
set client_min_messages = warning;
do $$ begin create role enums_owner login; exception when duplicate_object then null; end $$;
create schema app authorization enums_owner;
create schema lists authorization enums_owner;
set role enums_owner;

create table app.status (code text primary key, description text, weight int);
comment on table app.status is E'@enum\nHow far a thing is.';
insert into app.status values ('open', 'Nobody has begun', 1), ('in_progress', 'Somebody has', 2), ('on_hold', null, 3), ('', 'Nothing', 5), ('1st', null, 6), ('**', null, 8), ('DONE', null, 10), ('long_one', 'A description that is so long that whoever prints it may want to break it into lines, although it is but one sentence, and says nothing.', 11);
create table app.colours (name varchar(20) primary key, say text, description text);
comment on table app.colours is E'@enum\n@enumName paint_of_thing';
comment on column app.colours.say is E'@enumDescription\nWhat to say.';
insert into app.colours values ('red', 'Like blood', 'x'), ('green', 'Like grass', 'y');
create table app.flags (id int primary key, label text not null, short text, other text, constraint label_key unique (label), constraint short_key unique (short), constraint other_key unique (other), description text);
comment on constraint label_key on app.flags is '@enum';
comment on constraint short_key on app.flags is E'@enum\n@enumName little_flag';
insert into app.flags values (1, 'one', 'o', 'x', 'The first'), (2, 'two', null, 'y', null), (3, 'three', 't', 'z', 'Third');
create table lists.hidden_kind (code text primary key, description text);
comment on table lists.hidden_kind is '@enum';
insert into lists.hidden_kind values ('a', 'A'), ('b', 'B');
create table app.shown_anyway (code text primary key, n int);
comment on table app.shown_anyway is E'@enum\n@behavior +select +connection +single';
insert into app.shown_anyway values ('x', 1), ('y', 2);
create view app.kind_view as select unnest(array['v1', 'v2']) as code, 'a view'::text as description;
comment on view app.kind_view is E'@primaryKey code\n@enum';
create table app.unused (code text primary key);
comment on table app.unused is '@enum';
insert into app.unused values ('u1');

create table app.thing (
  id int primary key,
  status text not null default 'open' references app.status,
  other_status text references app.status,
  colour varchar(20) references app.colours,
  label text references app.flags (label),
  short text references app.flags (short),
  other text references app.flags (other),
  flag int references app.flags,
  kind text references lists.hidden_kind,
  any_way text references app.shown_anyway,
  viewed text);
comment on table app.thing is '@foreignKey (viewed) references app.kind_view (code)';
comment on column app.thing.status is 'Where it stands.';
create index on app.thing (status); create index on app.thing (other_status); create index on app.thing (colour); create index on app.thing (label); create index on app.thing (short);
create index on app.thing (flag); create index on app.thing (kind); create index on app.thing (any_way);create index on app.thing (viewed);
create table app.per_status (status text references app.status, n int, primary key (status, n), unique (n));
create table app.one_status (status text primary key references app.status, n int);
create domain app.status_enum_domain as text;
create domain app.chosen as text;
comment on domain app.chosen is E'@enum status\nOne that was chosen.';
create domain app.flag_label as text;
comment on domain app.flag_label is '@enum flags_label_key';
create domain app.colours_enum_domain as varchar(20);
create function app.things_in(s app.status_enum_domain) returns setof app.thing language sql stable as 'select * from app.thing where status = s order by id';
create function app.next_status(s app.chosen) returns app.chosen language sql stable as $$ select case s when 'open' then 'in_progress' when 'in_progress' then 'on_hold' else '' end::app.chosen $$;
create function app.all_statuses() returns setof app.status_enum_domain language sql stable as $$ select code::app.status_enum_domain from app.status where code < 'a' order by 1 $$;
create function app.some_statuses(a app.status_enum_domain[]) returns app.status_enum_domain[] language sql stable as 'select a';
create function app.by_label(l app.flag_label) returns int language sql stable as 'select id from app.flags where label = l';
create function app.by_colour(c app.colours_enum_domain) returns app.colours_enum_domain language sql stable as 'select c';
create function app.move(id int, s app.chosen) returns app.thing language sql volatile as 'update app.thing set status = s where id = move.id returning *';
create function app.thing_mood(t app.thing) returns app.chosen language sql stable as 'select t.status::app.chosen';
create type app.pair as (a app.chosen, b text);
create function app.echo_pair(p app.pair) returns app.pair language sql stable as 'select p';
insert into app.thing values (1, 'open', 'in_progress', 'red', 'one', 'o', 'x', 1, 'a', 'x', 'v1'), (2, '', 'on_hold', 'green', 'three', 't', 'z', 3, 'b', 'y', 'v2'), (3, 'DONE', null, null, null, null, null, null, null, null, null), (4, '**', '1st', null, 'two', null, 'y', 2, null, null, null);
insert into app.per_status values ('open', 1), ('in_progress', 2);
insert into app.one_status values ('open', 1), ('1st', 2);
