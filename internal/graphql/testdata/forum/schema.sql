-- Oracle sample schema "forum". Deterministic: fixed timestamps, uuids and seeded rows.
-- Load as a superuser into an empty database:  psql -X -v ON_ERROR_STOP=1 -d DB -f schema.sql
-- Roles (cluster-wide): forum_owner = connection role of the server under test (owns everything, not superuser);
-- forum_authenticator = restricted connection role (NOINHERIT) for the rbac SDL; app_anonymous, app_user = request roles.
set client_min_messages = warning;
do $$ begin create role forum_owner login password 'forum_owner'; exception when duplicate_object then null; end $$;
do $$ begin create role forum_authenticator login noinherit password 'forum_authenticator'; exception when duplicate_object then null; end $$;
do $$ begin create role app_anonymous; exception when duplicate_object then null; end $$;
do $$ begin create role app_user; exception when duplicate_object then null; end $$;
grant app_anonymous, app_user to forum_owner, forum_authenticator;
alter role forum_owner set timezone = 'UTC';
alter role forum_authenticator set timezone = 'UTC';
create extension if not exists citext;
create extension if not exists hstore;
drop schema if exists app_public cascade;
drop schema if exists app_private cascade;
create schema app_public authorization forum_owner;
create schema app_private authorization forum_owner;
set role forum_owner;
set timezone = 'UTC';
grant usage on schema app_public to app_anonymous, app_user;

create type app_public.mood as enum ('happy', 'very_sad', 'OK');
create type app_public.rating as enum ('*', '**', '>=', 'x1', '_low', 'n_a');
create domain app_public.email as citext check (value ~ '@');
create domain app_public.positive_int as int check (value > 0);
create type app_public.address as (street text, city text, zip int);

create table app_public.person (
  id serial primary key,
  username text not null unique,
  first_name text not null,
  last_name text,
  email app_public.email unique,
  mood app_public.mood not null default 'happy',
  home app_public.address,
  tags text[] not null default '{}',
  big_count bigint not null default 0,
  balance numeric(12,2) not null default 0,
  availability tstzrange,
  settings jsonb,
  uid uuid not null default gen_random_uuid(),
  age interval,
  birth date,
  wake time,
  ratio float8,
  ip inet,
  attrs hstore,
  created_at timestamptz not null default now()
);
comment on table app_public.person is 'A user of the forum.';
comment on column app_public.person.username is 'Public login name.';
create table app_public.forum (
  id int generated always as identity primary key,
  slug text not null unique,
  name text not null,
  created_at timestamptz not null default now()
);
create table app_public.post (
  id serial primary key,
  forum_id int not null references app_public.forum on delete cascade,
  author_id int not null references app_public.person,
  headline text not null,
  body text,
  topic text,
  score int not null default 0 check (score >= -100),
  created_at timestamptz not null default now()
);
create index on app_public.post (forum_id);
create index on app_public.post (author_id);
create index on app_public.post (created_at);
create index on app_public.post (topic, score);
create table app_public.comment (
  id bigserial primary key,
  post_id int not null references app_public.post on delete cascade,
  author_id int references app_public.person,
  parent_comment_id bigint references app_public.comment,
  body text not null,
  created_at timestamptz not null default now()
);
create index on app_public.comment (post_id);
create index on app_public.comment (author_id);
create index on app_public.comment (parent_comment_id);
create table app_public.post_like (
  person_id int not null references app_public.person,
  post_id int not null references app_public.post,
  liked_at timestamptz not null default now(),
  primary key (person_id, post_id)
);
create index on app_public.post_like (post_id);
create table app_public.profile (
  person_id int primary key references app_public.person on delete cascade,
  bio text
);
create table app_public.hidden_thing (id serial primary key, secret text);
comment on table app_public.hidden_thing is E'@omit create,update,delete\n@name secret_thing';
create table app_public.private_note (
  id serial primary key,
  person_id int not null references app_public.person,
  note text not null
);
create index on app_public.private_note (person_id);
create table app_public.type_sample (
  id int primary key,
  small smallint, big bigint, num numeric, num2 numeric(8,3), real_ real, dbl float8, yes boolean,
  vc varchar(10), ch char(4), ci citext,
  d date, t time, ttz timetz, ts timestamp, tstz timestamptz, iv interval,
  u uuid, j json, jb jsonb, ip inet, net cidr, mac macaddr, hs hstore, bin bytea, bits bit varying(8), cash money,
  i4r int4range, i8r int8range, nr numrange, dr daterange, tsr tsrange, tstzr tstzrange,
  ints int[], texts text[], bigs bigint[], moods app_public.mood[], stamps timestamptz[], homes app_public.address[], jsons jsonb[],
  mood app_public.mood, rating app_public.rating, email app_public.email, pos app_public.positive_int, home app_public.address
);
comment on column app_public.type_sample.pos is E'@name plus\nA positive number.';
create view app_public.post_stat as
  select p.id as post_id, count(c.id) as n_comments
  from app_public.post p left join app_public.comment c on c.post_id = p.id
  group by p.id;
comment on view app_public.post_stat is E'@primaryKey post_id\n@foreignKey (post_id) references app_public.post (id)|@fieldName post|@foreignFieldName stat';

-- computed columns
create function app_public.person_full_name(person app_public.person) returns text language sql stable as
  $$ select person.first_name || coalesce(' ' || person.last_name, '') $$;
create function app_public.person_latest_post(person app_public.person) returns app_public.post language sql stable as
  $$ select * from app_public.post where author_id = person.id order by created_at desc limit 1 $$;
create function app_public.person_recent_posts(person app_public.person, min_score int default 0) returns setof app_public.post language sql stable as
  $$ select * from app_public.post where author_id = person.id and score >= min_score order by created_at desc, id $$;
create function app_public.person_topics(person app_public.person) returns setof text language sql stable as
  $$ select distinct topic from app_public.post where author_id = person.id and topic is not null order by 1 $$;
create function app_public.post_summary(post app_public.post, length int default 50, omission text default '…') returns text language sql stable as
  $$ select left(post.headline, length) || omission $$;
create function app_public.post_is_hot(post app_public.post, threshold int) returns boolean language sql stable strict as
  $$ select post.score >= threshold $$;
-- custom queries
create function app_public.search_posts(search text) returns setof app_public.post language sql stable as
  $$ select * from app_public.post where headline ilike '%' || search || '%' order by id $$;
create function app_public.add(a int, b int) returns int language sql immutable as $$ select a + b $$;
create function app_public.add_strict(a int, b int) returns int language sql immutable strict as $$ select a + b $$;
create function app_public.current_person_id() returns int language sql stable as
  $$ select nullif(current_setting('jwt.claims.person_id', true), '')::int $$;
create function app_public.current_person() returns app_public.person language sql stable as
  $$ select * from app_public.person where id = app_public.current_person_id() $$;
create function app_public.forum_totals(slug text, out posts bigint, out comments bigint, out top_score int) language sql stable as
  $$ select count(distinct p.id), count(c.id), max(p.score)
     from app_public.forum f join app_public.post p on p.forum_id = f.id left join app_public.comment c on c.post_id = p.id
     where f.slug = $1 $$;
create function app_public.top_authors(n int default 3) returns table (person_id int, username text, posts bigint) language sql stable as
  $$ select a.id, a.username, count(*) from app_public.person a join app_public.post p on p.author_id = a.id group by 1, 2 order by 3 desc, 1 limit n $$;
create function app_public.topics() returns setof text language sql stable as
  $$ select distinct topic from app_public.post where topic is not null order by 1 $$;
create function app_public.people_by_mood(mood app_public.mood) returns setof app_public.person language sql stable as
  $$ select * from app_public.person p where p.mood = $1 order by id $$;
create function app_public.echo_interval(v interval) returns interval language sql immutable as $$ select v $$;
create function app_public.echo_range(v tstzrange) returns tstzrange language sql immutable as $$ select v $$;
create function app_public.echo_int_range(v int4range) returns int4range language sql immutable as $$ select v $$;
create function app_public.echo_address(v app_public.address) returns app_public.address language sql immutable as $$ select v $$;
create function app_public.echo_json(v jsonb) returns jsonb language sql immutable as $$ select v $$;
create function app_public.echo_tags(v text[]) returns text[] language sql immutable as $$ select v $$;
create function app_public.echo_attrs(v hstore) returns hstore language sql immutable as $$ select v $$;
create function app_public.echo_numeric(v numeric) returns numeric language sql immutable as $$ select v $$;
create function app_public.echo_bigint(v bigint) returns bigint language sql immutable as $$ select v $$;
create function app_public.echo_stamp(v timestamptz) returns timestamptz language sql immutable as $$ select v $$;
create function app_public.echo_rating(v app_public.rating) returns app_public.rating language sql immutable as $$ select v $$;
create function app_public.echo_email(v app_public.email) returns app_public.email language sql immutable as $$ select v $$;
create function app_public.echo_inet(v inet) returns inet language sql immutable as $$ select v $$;
-- custom mutations
create function app_public.register_person(first_name text, last_name text, username text) returns app_public.person language sql volatile strict security definer as
  $$ insert into app_public.person (first_name, last_name, username) values ($1, $2, $3) returning * $$;
create function app_public.add_comment(post_id int, body text default 'no text') returns app_public.comment language sql volatile as
  $$ insert into app_public.comment (post_id, author_id, body) values ($1, app_public.current_person_id(), $2) returning * $$;
create function app_public.bump_scores(forum_id int, by_points int default 1) returns setof app_public.post language sql volatile as
  $$ with u as (update app_public.post p set score = score + by_points where p.forum_id = $1 and p.id <= 60 returning *) select * from u order by id $$;
create function app_public.transfer_balance(from_id int, to_id int, amount numeric) returns numeric language plpgsql volatile strict as $$
declare v numeric;
begin
  if amount <= 0 then raise exception 'amount must be positive' using errcode = '22023', hint = 'use a number above zero'; end if;
  update app_public.person set balance = balance - amount where id = from_id;
  update app_public.person set balance = balance + amount where id = to_id returning balance into v;
  return v;
end $$;
create function app_public.touch_nothing() returns void language sql volatile as $$ select 1 $$;
create function app_public.random_pair(out low int, out high int) language sql volatile as $$ select 1, 2 $$;

-- rows
insert into app_public.person (username, first_name, last_name, email, mood, home, tags, big_count, balance, availability, settings, uid, age, birth, wake, ratio, ip, attrs, created_at)
select 'user' || i, 'First' || i, case when i % 10 = 0 then null else 'Last' || (i % 37) end,
  case when i % 4 = 0 then null else ('user' || i || '@example.com') end,
  (array['happy', 'very_sad', 'OK'])[1 + i % 3]::app_public.mood,
  case when i % 5 = 0 then null else row('Street ' || i, case when i % 7 = 0 then null else 'City' || (i % 9) end, 10000 + i)::app_public.address end,
  array['t' || (i % 4), 't' || (i % 6)],
  9007199254740993 + i, (i * 1.25)::numeric(12,2),
  tstzrange('2024-01-01T00:00:00Z'::timestamptz + i * interval '1 day', '2024-01-02T00:00:00Z'::timestamptz + i * interval '1 day'),
  jsonb_build_object('theme', case when i % 2 = 0 then 'dark' else 'light' end, 'n', i),
  md5('person' || i)::uuid, make_interval(years => i % 60, days => i % 30, hours => i % 24), date '1970-01-01' + i * 50, time '06:00' + i * interval '1 minute',
  i / 8.0, ('10.0.' || (i / 256) || '.' || (i % 256))::inet, hstore('k' || (i % 3), 'v' || i),
  '2024-01-01T00:00:00Z'::timestamptz + i * interval '1 hour'
from generate_series(1, 200) i;
insert into app_public.forum (slug, name, created_at)
select 'forum' || i, 'Forum ' || i, '2024-01-01T00:00:00Z'::timestamptz + i * interval '1 day' from generate_series(1, 12) i;
insert into app_public.post (forum_id, author_id, headline, body, topic, score, created_at)
select 1 + i % 10, 1 + (i * 7) % 190, 'Headline ' || i, case when i % 11 = 0 then null else 'body ' || i end,
  case when i % 13 = 0 then null else 'topic' || (i % 5) end, i % 100,
  '2024-06-01T00:00:00Z'::timestamptz - i * interval '1 minute' - (i % 3) * interval '1 microsecond'
from generate_series(1, 2000) i;
insert into app_public.comment (post_id, author_id, parent_comment_id, body, created_at)
select 1 + (i * 13) % 1900, case when i % 17 = 0 then null else 1 + i % 180 end, case when i > 100 and i % 4 = 0 then 1 + i % 100 end,
  'Comment ' || i, '2024-07-01T00:00:00Z'::timestamptz - i * interval '1 second'
from generate_series(1, 5000) i;
insert into app_public.post_like
select 1 + i % 150, 1 + (i * 11) % 1500, '2024-08-01T00:00:00Z'::timestamptz + i * interval '1 minute' from generate_series(1, 1500) i on conflict do nothing;
insert into app_public.profile select id, 'bio ' || id from app_public.person where id % 2 = 0;
insert into app_public.hidden_thing (secret) select 'secret ' || i from generate_series(1, 5) i;
insert into app_public.private_note (person_id, note) select 1 + i % 4, 'note ' || i from generate_series(1, 12) i;
insert into app_public.type_sample (id, small, big, num, num2, real_, dbl, yes, vc, ch, ci, d, t, ttz, ts, tstz, iv, u, j, jb, ip, net, mac, hs, bin, bits, cash,
  i4r, i8r, nr, dr, tsr, tstzr, ints, texts, bigs, moods, stamps, homes, jsons, mood, rating, email, pos, home) values
 (1, 7, 9223372036854775807, 123456789012345678901234567890.123456789, 12345.678, 1.5, 0.1, true, 'varchar', 'ab', 'CiText',
  '2024-02-29', '23:59:59.123456', '13:14:15+05:30', '2024-02-29 12:34:56.789', '2024-02-29 12:34:56.789012+03', '1 year 2 mons 3 days 04:05:06.789',
  '00000000-0000-4000-8000-000000000001', '{"b":1, "a":[1,2,{"c":null}]}', '{"b":1, "a":[1,2,{"c":null}]}', '192.168.0.1/24', '10.1.0.0/16', '08:00:2b:01:02:03',
  'a=>1, b=>NULL, "odd key"=>"odd, value"', '\xdeadbeef', B'10110', '$1,234.56',
  '[1,10)', '(5,9223372036854775806]', '[1.5,2.5]', '[2024-01-01,2024-12-31]', '[2024-01-01 00:00, 2024-01-02 12:30:00.5)', '["2024-01-01 00:00+02","2024-06-01 00:00-05")',
  '{1,NULL,3}', '{"a",NULL,"with \"quote\"","comma, inside",""}', '{9223372036854775807,NULL,-1}', '{happy,OK,NULL}', '{"2024-01-01 00:00+00",NULL}',
  array[row('S1','C1',1)::app_public.address, null, row(null,'C, "2"',null)::app_public.address], array['{"x":1}'::jsonb, null, '"str"'::jsonb, '3'::jsonb],
  'very_sad', '*', 'First@Example.com', 5, row('Main "St"', null, 12345)),
 (2, -32768, -9223372036854775808, 'NaN', 0, '-0', 1e300, false, '', '', '', '0001-01-01', '00:00', '00:00+00', '1999-12-31 23:59:59.999999', '1999-12-31 23:59:59.999999-08', '-1 days -02:03:04',
  'ffffffff-ffff-ffff-ffff-ffffffffffff', 'null', 'null', '::1', '2001:db8::/32', 'ff:ff:ff:ff:ff:ff', '', '', B'', '-$0.01',
  'empty', 'empty', 'empty', 'empty', 'empty', 'empty', '{}', '{}', '{}', '{}', '{}', '{}', '{}', 'OK', '>=', 'a@b', 1, row(null, null, null)),
 (3, 0, 0, 0.000, 1, 0, 5e-324, null, 'ünïcödé', 'é', 'ß', '9999-12-31', '24:00', '12:00-12', '2024-01-01 00:00', '2024-01-01 00:00+00', '0',
  null, '"text"', '[]', '10.0.0.0/8', '0.0.0.0/0', null, 'x=>""', '\x00ff', B'1', '0',
  '(,)', '(,5]', '[0,)', '[2024-01-01,)', '(,2024-01-01 00:00)', '(,)', '{{1,2},{3,4}}', '{NULL}', '{0}', '{very_sad}', '{}', null, array['{}'::jsonb],
  'happy', 'n_a', null, null, null),
 (4, null, null, null, null, null, null, null, null, null, null, null, null, null, null, null, null, null, null, null, null, null, null, null, null, null, null,
  null, null, null, null, null, null, null, null, null, null, null, null, null, null, null, null, null, null),
 (5, 1, 1, 'Infinity', -1.5, 'Infinity', 'NaN', true, 'a', 'abcd', 'X', 'infinity', '12:00', '12:00:00.1+00', 'infinity', '-infinity', '100 years 1 sec',
  null, '1.0', '1.50', null, null, null, null, null, null, null,
  '[3,3]', '[1,1]', '(1,2)', '(2024-01-01,2024-01-03)', null, '["2024-01-01 00:00+00",infinity)', '[0:1]={7,8}', null, null, null, null, null, null, null, '_low', null, 42, row('x', 'y', 0));

alter table app_public.comment enable row level security;
create policy sel on app_public.comment for select using (true);
create policy ins on app_public.comment for insert with check (author_id = app_public.current_person_id());
create policy upd on app_public.comment for update using (author_id = app_public.current_person_id());
create policy del on app_public.comment for delete using (author_id = app_public.current_person_id());
alter table app_public.private_note enable row level security;
alter table app_public.private_note force row level security;
create policy own on app_public.private_note using (person_id = app_public.current_person_id());
grant select on all tables in schema app_public to app_anonymous, app_user;
revoke select on app_public.hidden_thing from app_anonymous;
grant insert, update (body), delete on app_public.comment to app_user;
grant insert, update, delete on app_public.private_note to app_user;
grant usage on all sequences in schema app_public to app_user;
reset role;
analyze;
