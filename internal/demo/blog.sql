-- A small blog, for trying GraphQL over PostgreSQL. Readers see what is published; authors also see and change what is theirs.

create role demo_visitor nologin;
create role demo_author nologin;
create role demo_login login noinherit;
grant demo_visitor, demo_author to demo_login;

create schema blog;
grant usage on schema blog to demo_visitor, demo_author;

create type blog.post_state as enum ('draft', 'published', 'withdrawn');

create table blog.people (
	id int primary key generated always as identity,
	given_name text not null,
	family_name text not null,
	about text,
	joined_at timestamptz not null default now()
);
comment on table blog.people is 'Those who write posts and comments.';

create table blog.posts (
	id int primary key generated always as identity,
	author_id int not null references blog.people on delete cascade,
	title text not null check (title <> ''),
	body text not null default '',
	state blog.post_state not null default 'draft',
	tags text[] not null default '{}',
	created_at timestamptz not null default now(),
	published_at timestamptz
);
create index on blog.posts (author_id);
create index on blog.posts (title);
create index on blog.posts (published_at);
comment on column blog.posts.tags is 'Words to find the post by.';

create table blog.comments (
	id int primary key generated always as identity,
	post_id int not null references blog.posts on delete cascade,
	author_id int references blog.people on delete set null,
	body text not null check (body <> ''),
	created_at timestamptz not null default now()
);
create index on blog.comments (post_id);
create index on blog.comments (author_id);

-- Whose request this is: the claim person_id of a token or a trusted header.
create function blog.current_person_id() returns int language sql stable as
$$ select nullif(current_setting('jwt.claims.person_id', true), '')::int $$;
comment on function blog.current_person_id() is 'The person whose request this is; null for a visitor.';

create function blog.current_person() returns blog.people language sql stable as
$$ select p from blog.people p where p.id = blog.current_person_id() $$;

-- Functions of a row are fields of its type.
create function blog.people_full_name(person blog.people) returns text language sql stable as
$$ select person.given_name || ' ' || person.family_name $$;

create function blog.posts_excerpt(post blog.posts, length int default 60) returns text language sql stable as
$$ select case when char_length(post.body) <= length then post.body else left(post.body, length) || '…' end $$;

-- Other functions that change nothing are fields of Query; those that change something are mutations.
create function blog.search_posts(term text) returns setof blog.posts language sql stable as
$$ select p.* from blog.posts p where position(lower(term) in lower(p.title || ' ' || p.body)) > 0 or lower(term) = any(p.tags) order by p.id $$;

create function blog.publish_post(post_id int) returns blog.posts language plpgsql as $$
declare
	published blog.posts;
begin
	update blog.posts set state = 'published', published_at = coalesce(published_at, now())
		where id = post_id and author_id = blog.current_person_id() returning * into published;
	if published.id is null then
		raise exception 'you have no post %', post_id;
	end if;
	return published;
end $$;

alter table blog.people enable row level security;
alter table blog.posts enable row level security;
alter table blog.comments enable row level security;

create policy all_see on blog.people for select using (true);
create policy own_update on blog.people for update to demo_author using (id = blog.current_person_id());

create policy published_select on blog.posts for select using (state = 'published' or author_id = blog.current_person_id());
create policy own_insert on blog.posts for insert to demo_author with check (author_id = blog.current_person_id());
create policy own_update on blog.posts for update to demo_author using (author_id = blog.current_person_id());
create policy own_delete on blog.posts for delete to demo_author using (author_id = blog.current_person_id());

create policy visible_select on blog.comments for select using (exists (select from blog.posts p where p.id = post_id));
create policy own_insert on blog.comments for insert to demo_author with check (author_id = blog.current_person_id());
create policy own_delete on blog.comments for delete to demo_author using (author_id = blog.current_person_id());

grant select on blog.people, blog.posts, blog.comments to demo_visitor, demo_author;
grant update (given_name, family_name, about) on blog.people to demo_author;
grant insert (author_id, title, body, tags), update (title, body, tags, state), delete on blog.posts to demo_author;
grant update (published_at) on blog.posts to demo_author;
grant insert (post_id, author_id, body), delete on blog.comments to demo_author;

insert into blog.people (given_name, family_name, about, joined_at) values
	('Ines', 'Falk', 'Builds dykes, and writes about water.', '2024-02-01 08:00+00'),
	('Jonas', 'Reet', 'Looks after pumps.', '2024-03-12 09:30+00'),
	('Mara', 'Holm', null, '2024-05-20 17:45+00');

insert into blog.posts (author_id, title, body, state, tags, created_at, published_at) values
	(1, 'How high is high enough', 'A dyke is as high as the flood that somebody remembers, and a hand more.', 'published', '{dykes,floods}', '2024-06-01 10:00+00', '2024-06-01 12:00+00'),
	(1, 'Clay, sand, grass', 'The core keeps the water out, the grass keeps the core in.', 'published', '{dykes,materials}', '2024-07-14 10:00+00', '2024-07-15 07:00+00'),
	(2, 'What a pump cannot do', 'It lifts water; where the water goes then is another question.', 'published', '{pumps}', '2024-08-02 06:30+00', '2024-08-02 06:40+00'),
	(1, 'Notes on overtopping', 'Not finished: ask Jonas for his figures.', 'draft', '{floods}', '2024-09-09 21:10+00', null),
	(2, 'An embarrassing reading', 'The gauge was upside down.', 'withdrawn', '{pumps}', '2024-09-30 11:00+00', '2024-09-30 11:05+00');

insert into blog.comments (post_id, author_id, body, created_at) values
	(1, 2, 'And who remembers the one before?', '2024-06-02 08:00+00'),
	(1, 3, 'Two hands, where I live.', '2024-06-03 19:20+00'),
	(2, 3, 'What about moles?', '2024-07-16 14:00+00'),
	(3, 1, 'Into my polder, it seems.', '2024-08-03 05:55+00'),
	(4, 1, 'A comment on a draft: only its author sees it.', '2024-09-10 09:00+00');
