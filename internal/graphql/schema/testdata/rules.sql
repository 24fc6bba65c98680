-- A schema that asks for the rules that the forum schema does not: names, tags, keys, types, functions and grants.
-- Loaded by a superuser into an empty database of bytewise order.
set client_min_messages = warning;
do $$ begin create role rules_owner login; exception when duplicate_object then null; end $$;
do $$ begin create role rules_reader login noinherit; exception when duplicate_object then null; end $$;
create extension if not exists citext;
create extension if not exists ltree;
create schema first authorization rules_owner;
create schema second authorization rules_owner;
create schema hidden authorization rules_owner;
create extension if not exists postgres_fdw;
create server nowhere foreign data wrapper postgres_fdw;
grant usage on foreign server nowhere to rules_owner;
set role rules_owner;

-- Several schemas with equal names.
create table first.note (id int primary key, body text);
create table second.note (id int primary key, note_id int references first.note, body text);
create index on second.note (note_id);
create type second.mood as enum ('up', 'down');
create type second.pair as (a int, b second.mood);
create domain second.short as text;
create function second.notes_about(word text) returns setof second.note language sql stable as $$ select * from second.note where body like word $$;
create function second.note_length(note second.note) returns int language sql stable as $$ select length(note.body) $$;
create function second.make_pair(a int) returns second.pair language sql stable as $$ select row(a, 'up')::second.pair $$;
create table second.uses_types (id int primary key, mood second.mood, pair second.pair, short second.short, moods second.mood[]);

-- Names.
create table first.order_input (id int primary key, order_input int);
create table first.order_patch (id int primary key, "Patch" int);
create table first.input (id int primary key);
create table first."MixedCase Table" (id int primary key, "Some Column" text unique, "camelCase" int, "ALLCAPS" int, "snake_2_words" int, a1b2 int, "x__y" int, _leading int, trailing_ int, "1st" int);
create index on first."MixedCase Table" ("camelCase", "ALLCAPS", "snake_2_words", a1b2, "x__y", _leading, trailing_);
create table first."2fast" (id int primary key);
create table first."größe" (id int primary key, "länge" int unique);
create table first."имя" (id int primary key, "значение" int unique);
create table first.people (id int primary key, parent_id int references first.people);
create index on first.people (parent_id);
create table first.status (id int primary key);
create table first.data (id int primary key);
create table first.sheep (id int primary key);
create table first.geese (id int primary key);
create table first.news_item (node_id int primary key, id int unique);
create table first.query_log (id uuid primary key, query text, node int, "__typename_" int);
create table first.__hidden (id int primary key, __x int, "__" int);
create table first.http_api_v2_url (id int primary key, "HTTPServer" text, url2 text);
create table first.addresses (id int primary key);
create table first.settings (id int primary key);
create table first.user_has_role (a int, b int, primary key (b, a));
create table first.no_key (a int, b text);
create table first.only_unique (a int not null, b int unique, c int not null, unique (c, a));
create table first.no_columns ();

-- Keys and relations.
create table first.parent (x int, y int, z int unique, primary key (x, y));
create table first.child (id int primary key, x int, y int, px int, py int, z int references first.parent (z), same int references first.parent (z),
  foreign key (x, y) references first.parent (x, y), constraint second_parent foreign key (py, px) references first.parent (y, x));
create index on first.child (x, y);
create index on first.child (z) where z > 0;
create index on first.child (px);
create index on first.child (py);
create table first.extra (x int, y int, n int, primary key (x, y), foreign key (x, y) references first.parent (x, y));
create table first.subset_unique (x int unique, y int, foreign key (x, y) references first.parent (x, y));
create table first.twice (id int primary key, a int references first.note, b int references first.note);
create index on first.twice (a);
create table hidden.secret (id int primary key);
create table first.refers_hidden (id int primary key, secret_id int references hidden.secret);
create table first.tagged_parent (id int primary key);
create table first.tagged_child (id int primary key, tagged_parent_id int, other_id int, third_id int, fourth_id int unique,
  constraint one foreign key (tagged_parent_id) references first.tagged_parent,
  constraint two foreign key (other_id) references first.tagged_parent,
  constraint three foreign key (third_id) references first.tagged_parent,
  constraint four foreign key (fourth_id) references first.tagged_parent);
create index on first.tagged_child (tagged_parent_id);
create index on first.tagged_child (other_id);
create index on first.tagged_child (third_id);
comment on constraint one on first.tagged_child is E'@fieldName boss\n@foreignFieldName minions\nThe one above.';
comment on constraint two on first.tagged_child is E'@behavior -manyRelation:resource:connection\n@deprecated Use boss.\n@forwardDescription Forward words.\n@backwardDescription Backward words.';
comment on constraint three on first.tagged_child is E'@forwardBehavior -single\n@backwardBehavior -connection';
comment on constraint four on first.tagged_child is E'@foreignSingleFieldName single_minion\n@foreignFieldName ignored';

-- Tags on tables and columns.
create table first.tags_name (id int primary key, a int, b text, c text, d int, e int, f int unique);
create index on first.tags_name (a, b, c, d, e);
comment on table first.tags_name is E'@name renamed_things\nA thing that has another name.\n\nWith two paragraphs.';
comment on column first.tags_name.a is E'@name first_letter\n@deprecated';
comment on column first.tags_name.b is E'@deprecated One reason.\n@deprecated Another reason.\nA text.';
comment on column first.tags_name.c is E'@behavior -select';
comment on column first.tags_name.d is E'@behavior -insert -update';
comment on column first.tags_name.e is E'@behavior -filterBy -orderBy\n@notNull';
comment on constraint tags_name_f_key on first.tags_name is E'@behavior -single -update';
create table first.tags_sort (id int primary key, a int, b int, c int);
comment on column first.tags_sort.a is E'@behavior +orderBy';
comment on column first.tags_sort.b is E'@behavior +filterBy';
comment on column first.tags_sort.c is E'@sortable\n@filterable\n@isIndexed';
create table first.behave_insert (id int primary key, a int);
comment on table first.behave_insert is E'@behavior -insert';
create table first.behave_update (id int primary key, a int);
comment on table first.behave_update is E'@behavior -update -delete';
create table first.behave_select (id int primary key, a int);
comment on table first.behave_select is E'@behavior -select';
create table first.behave_connection (id int primary key, a int);
comment on table first.behave_connection is E'@behavior -connection';
create table first.behave_query_connection (id int primary key, note_id int references first.note);
create index on first.behave_query_connection (note_id);
comment on table first.behave_query_connection is E'@behavior -query:resource:connection -query:resource:single';
create table first.behave_single (id int primary key, a int);
comment on table first.behave_single is E'@behavior -single';
create table first.behave_none (id int primary key, note_id int references first.note);
create index on first.behave_none (note_id);
comment on table first.behave_none is E'@behavior -*';
create table first.behave_some (id int primary key, a int);
comment on table first.behave_some is E'@behavior -* +select +query:resource:connection';
create table first.behave_node (id int primary key, a int);
comment on table first.behave_node is E'@behavior -node';
create table first.behave_filter (id int primary key, a int);
comment on table first.behave_filter is E'@behavior -filter -order';
create table first.omitted (id int primary key, a int);
comment on table first.omitted is E'@omit\nStill there.';
create table first.odd_comment (id int primary key, a int, b int, c int);
comment on table first.odd_comment is E'\n  Indented text\n    and more.  \n';
comment on column first.odd_comment.a is E'Text first\n@name not_a_tag';
comment on column first.odd_comment.b is E'  @name spaced_tag  \n\n  A text after an empty line.';
comment on column first.odd_comment.c is E'@name\ttabbed\r\nWith "quotes" and """three""" and a \\ backslash. ÜÑÍ';
create table first.deprecated_table (id int primary key, note_id int references first.note);
create index on first.deprecated_table (note_id);
comment on table first.deprecated_table is E'@deprecated Do not use.\nOld.';

-- Columns.
create table first.generated (id int generated always as identity primary key, by_default int generated by default as identity, stored int generated always as (1 + 1) stored,
  has_default int not null default 1, required int not null, optional int);
create domain first.with_default as int not null default 5;
create domain first.needed as text not null;
create table first.domained (id int primary key, a first.with_default, b first.needed, c first.needed[]);

-- Views.
create view first.plain_view as select id, body from first.note;
create view first.read_only_view as select count(*) as n, max(body) as body from first.note;
create view first.keyed_view as select id, body, 1 as parent from first.note;
comment on view first.keyed_view is E'@primaryKey id\n@unique body|@behavior -single\n@foreignKey (parent) references first.people (id)|@fieldName above|@foreignFieldName below|@behavior -filter\n@foreignKey (id) references note\nA view with keys.';
create materialized view first.matter as select id, body from first.note;
create unique index on first.matter (id);
create foreign table first.far_away (id int not null, a text) server nowhere;
comment on foreign table first.far_away is E'@primaryKey id';
create table first.parted (id int, day date, note_id int references first.note, primary key (id, day)) partition by range (day);
create table first.parted_2024 partition of first.parted for values from ('2024-01-01') to ('2025-01-01');
create table first.base_table (id int primary key, a int);
create table first.heir (b int) inherits (first.base_table);
create unlogged table first.volatile_table (id int primary key);

-- Types.
create type first.shade as enum ('light', 'DARK', 'a_b', '*', 'a*', '*b', '**', '>=', '<>', 'x1', '_low', '1st', '', 'true_');
comment on type first.shade is E'@name tint\nHow dark it is.';
create type first.point3 as (x float8, y float8, z float8);
comment on type first.point3 is E'A point in space.';
create type first.nested as (p first.point3, ps first.point3[], s first.shade, id int);
create domain first.shades as first.shade[];
create domain first.one_shade as first.shade;
create domain first.a_point as first.point3;
create domain first.a_range as int4range;
create domain first.an_interval as interval;
create domain first.texts as text[];
create domain first.email as citext;
comment on domain first.email is E'An address.';
create domain first.work_email as first.email;
create type first.span as range (subtype = float8);
create type first.email_span as range (subtype = text);
create table first.all_types (id int primary key,
  a1 first.shade, a2 first.point3, a3 first.nested, a4 first.shades, a5 first.one_shade, a6 first.a_point, a7 first.a_range, a8 first.an_interval, a9 first.texts,
  b1 first.email, b2 first.work_email, b3 first.span, b4 first.email_span, b5 first.span[], b6 first.email[], b7 int4multirange,
  c1 tsvector, c2 tsquery, c3 xml, c4 jsonpath, c5 oid, c6 regclass, c7 name, c8 "char", c9 macaddr8,
  d1 bit(3), d2 bytea, d3 json, d4 jsonb, d5 text[][], d6 interval[], d7 numrange[], d8 bytea[],
  e1 ltree, e2 ltree[], e3 pg_lsn, e4 txid_snapshot, e5 int2vector, e6 regtype, e7 money, e8 bit varying);
create index on first.all_types (a1, a5, b1, b2);
create index on first.all_types (c5, c7, c9, e7);
create index on first.all_types (d1, d2, e8);
create index on first.all_types (a2, b3, d4, d5, d6, a9, a7, a8);
create index on first.all_types using gist (e1);
create index on first.all_types using gist (c1);

-- Functions.
create function first.f_unnamed(int, text) returns text language sql stable as $$ select $2 $$;
create function first.f_defaults(a int, b int default 1, c text default 'x') returns int language sql stable strict as $$ select a $$;
create function first.f_out(a int, out b text) language sql stable as $$ select 'x'::text $$;
create function first.f_outs(a int, out b text, out "C d" int) language sql stable as $$ select 'x'::text, 1 $$;
create function first.f_inout(inout a int, inout b text) language sql stable as $$ select a, b $$;
create function first.f_unnamed_outs(out int, out text) language sql stable as $$ select 1, 'x'::text $$;
create function first.f_table(n int) returns table (id int, body text, shade first.shade) language sql stable as $$ select 1, 'x'::text, 'light'::first.shade $$;
create function first.f_table_one(n int) returns table (body text) language sql stable as $$ select 'x'::text $$;
create function first.f_variadic(variadic a int[]) returns int language sql stable as $$ select 1 $$;
create function first.f_poly(a anyelement) returns anyelement language sql stable as $$ select a $$;
create function first.f_over(a int) returns int language sql stable as $$ select a $$;
create function first.f_over(a text) returns int language sql stable as $$ select 1 $$;
create function first.f_record() returns record language sql stable as $$ select 1, 2 $$;
create function first.f_records() returns setof record language sql stable as $$ select 1, 2 $$;
create function first.f_void() returns void language sql stable as $$ select 1 $$;
create function first.m_void(a int) returns void language sql volatile as $$ select 1 $$;
create function first.f_row() returns first.note language sql stable as $$ select * from first.note limit 1 $$;
create function first.f_rows() returns setof first.note language sql stable as $$ select * from first.note $$;
create function first.f_row_array() returns first.note[] language sql stable as $$ select array_agg(n) from first.note n $$;
create function first.f_composite() returns first.point3 language sql stable as $$ select row(1,2,3)::first.point3 $$;
create function first.f_composites() returns setof first.point3 language sql stable as $$ select row(1,2,3)::first.point3 $$;
create function first.f_composite_array() returns first.point3[] language sql stable as $$ select array[row(1,2,3)::first.point3] $$;
create function first.f_array() returns int[] language sql stable as $$ select array[1] $$;
create function first.f_arrays() returns setof int[] language sql stable as $$ select array[1] $$;
create function first.f_takes_row(n first.people) returns int language sql volatile as $$ select 1 $$;
create function first.f_takes_rows(n first.people[], p first.point3[]) returns int language sql stable as $$ select 1 $$;
create function first.f_takes_composite(p first.point3, q first.nested) returns first.nested language sql stable as $$ select q $$;
create function first.f_enums() returns setof first.shade language sql stable as $$ select 'light'::first.shade $$;
create function first.f_intervals() returns setof interval language sql stable as $$ select interval '1 day' $$;
create function first.f_domains(e first.work_email) returns setof first.email language sql stable as $$ select e::first.email $$;
create function first.f_ranges() returns setof first.span language sql stable as $$ select null::first.span $$;
create function first.f_trigger() returns trigger language plpgsql as $$ begin return new; end $$;
create function first.f_hidden() returns hidden.secret language sql stable as $$ select * from hidden.secret limit 1 $$;
create function first.f_hiddens() returns setof hidden.secret language sql stable as $$ select * from hidden.secret $$;
create function first.__private() returns int language sql stable as $$ select 1 $$;
create function first."Camel Func"("Arg One" int) returns int language sql stable as $$ select 1 $$;
create function first.f_cursor() returns refcursor language sql stable as $$ select null::refcursor $$;
create procedure first.a_procedure(a int) language sql as $$ select 1 $$;
create aggregate first.an_aggregate(int) (sfunc = int4pl, stype = int);
create function first.m_row(a int, b text default null) returns first.note language sql volatile as $$ select * from first.note limit 1 $$;
create function first.m_rows() returns setof first.note language sql volatile as $$ select * from first.note $$;
create function first.m_row_array() returns first.note[] language sql volatile as $$ select array_agg(n) from first.note n $$;
create function first.m_outs(out a int, out b int) language sql volatile as $$ select 1, 2 $$;
create function first.m_table() returns table (a int, b int) language sql volatile as $$ select 1, 2 $$;
create function first.m_scalars() returns setof int language sql volatile as $$ select 1 $$;
create function first.m_array() returns int[] language sql volatile as $$ select array[1] $$;
create function first.m_composite(p first.point3) returns first.point3 language sql volatile as $$ select p $$;
create function first.m_no_key() returns first.no_key language sql volatile as $$ select null::first.no_key $$;
create function first.m_strict(a int, b int default 1) returns int language sql volatile strict as $$ select 1 $$;
create function first.people_name(p first.people) returns text language sql stable as $$ select 'x'::text $$;
create function first.people_is_old(p first.people, age int, strictly boolean default true) returns boolean language sql stable as $$ select true $$;
create function first.people_friends(p first.people) returns setof first.people language sql stable as $$ select * from first.people $$;
create function first.people_outs(p first.people, out a int, out b int) language sql stable as $$ select 1, 2 $$;
create function first.people_table(p first.people) returns table (a int, b int) language sql stable as $$ select 1, 2 $$;
create function first.people_tags(p first.people) returns text[] language sql stable as $$ select array['x'] $$;
create function first.people_point(p first.people) returns first.point3 language sql stable as $$ select null::first.point3 $$;
create function first.other_name(p first.people) returns text language sql stable as $$ select 'x'::text $$;
create function first.people_unnamed(first.people, int) returns text language sql stable as $$ select 'x'::text $$;
create function first.point3_length(p first.point3) returns float8 language sql stable as $$ select 1.0::float8 $$;
create function first.shade_text(s first.shade) returns text language sql stable as $$ select s::text $$;
create function first.plain_view_upper(v first.plain_view) returns text language sql stable as $$ select upper(v.body) $$;
create function first.tags_name_computed(t first.tags_name) returns text language sql stable as $$ select 'x'::text $$;
create function first.t_name(a int) returns int language sql stable as $$ select 1 $$;
comment on function first.t_name is E'@name totally_else\n@deprecated Not any more.\nDoes nothing.';
create function first.people_renamed(p first.people) returns int language sql stable as $$ select 1 $$;
comment on function first.people_renamed is E'@fieldName anotherField\nIs something.';
create function first.people_named(p first.people) returns int language sql stable as $$ select 1 $$;
comment on function first.people_named is E'@name people_named_else';
create function first.people_sortable(p first.people) returns int language sql stable as $$ select 1 $$;
comment on function first.people_sortable is E'@sortable\n@filterable\n@behavior +orderBy +filterBy';
create function first.people_not_null(p first.people) returns int language sql stable as $$ select 1 $$;
comment on function first.people_not_null is E'@notNull';
create function first.people_query(p first.people) returns int language sql stable as $$ select 1 $$;
comment on function first.people_query is E'@behavior +queryField -typeField';
create function first.f_off() returns int language sql stable as $$ select 1 $$;
comment on function first.f_off is E'@behavior -queryField';
create function first.f_none() returns int language sql stable as $$ select 1 $$;
comment on function first.f_none is E'@behavior -*';
create function first.f_omit() returns int language sql stable as $$ select 1 $$;
comment on function first.f_omit is E'@omit';
create function first.m_off() returns int language sql volatile as $$ select 1 $$;
comment on function first.m_off is E'@behavior -mutationField';
create function first.m_result() returns first.note language sql volatile as $$ select * from first.note limit 1 $$;
comment on function first.m_result is E'@resultFieldName outcome\n@deprecated No.';
create function first.f_variant(a int, p first.people) returns int language sql stable as $$ select 1 $$;
comment on function first.f_variant is E'@arg1variant patch';
create function first.f_filterable() returns setof first.note language sql stable as $$ select * from first.note $$;
comment on function first.f_filterable is E'@behavior +filter +order';
create function first.f_many_args(a smallint, b bigint, c numeric, d real, e date, f time, g timestamp, h uuid, i jsonb, j inet, k interval, l int4range, m bytea, n bit) returns boolean language sql stable as $$ select true $$;
reset role;
