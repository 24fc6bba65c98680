-- Sample schema "shop": a trader with depots, in two exposed schemas that have equal table names, and a private one.
-- Deterministic: no clock and no chance in any row. Load as a superuser into an empty database with bytewise order (collation C):
--   psql -X -v ON_ERROR_STOP=1 -d DB -f schema.sql
-- Roles (cluster-wide): shop_owner owns everything and is no superuser; shop_login is a restricted login (NOINHERIT);
-- shop_guest, shop_clerk and shop_manager are what requests run as.
set client_min_messages = warning;
do $$ begin create role shop_owner login password 'shop_owner'; exception when duplicate_object then null; end $$;
do $$ begin create role shop_login login noinherit password 'shop_login'; exception when duplicate_object then null; end $$;
do $$ begin create role shop_guest; exception when duplicate_object then null; end $$;
do $$ begin create role shop_clerk; exception when duplicate_object then null; end $$;
do $$ begin create role shop_manager; exception when duplicate_object then null; end $$;
grant shop_guest, shop_clerk, shop_manager to shop_owner;
grant shop_guest, shop_clerk to shop_login;
alter role shop_owner set timezone = 'UTC';
alter role shop_login set timezone = 'UTC';
create schema ext;
grant usage on schema ext to public;
create extension citext schema ext;
create extension hstore schema ext;
create extension ltree schema ext;
create extension cube schema ext;
create schema shop_public authorization shop_owner;
create schema shop_stock authorization shop_owner;
create schema shop_private authorization shop_owner;
set role shop_owner;
set timezone = 'UTC';
grant usage on schema shop_public, shop_stock to shop_guest, shop_clerk, shop_manager;

-- types
create type shop_public.order_state as enum ('draft', 'placed', 'Shipped', 'RETURNED', 'on_hold');
comment on type shop_public.order_state is 'How far an order has come.';
create type shop_public.colour as enum ('red', 'green', 'blue', '2tone');
comment on type shop_public.colour is E'@name paint\nWhat it is painted in.';
create type shop_public.dims as (width numeric, height numeric, depth numeric);
create type shop_public.geo as (lat float8, lon float8);
create type shop_public.postal as (street text, town text, "postCode" text, place shop_public.geo);
create type shop_public.line_request as (sku text, quantity int, paint shop_public.colour);
create domain shop_public.sku_code as text check (value ~ '^[A-Z]{2}-[0-9]+$');
create domain shop_public.quantity as int check (value > 0);
create domain shop_public.few as shop_public.quantity check (value < 1000);
create domain shop_public.tag_list as text[] check (array_length(value, 1) <= 5);
create domain shop_public.label as text not null check (value <> '');
create domain shop_public.mail as ext.citext check (value like '%@%');
create domain shop_public.span as int4range check (not isempty(value));
comment on domain shop_public.quantity is 'More than nothing.';

-- tables
create table shop_private.account (id int primary key, secret text not null);
create table shop_public.region (
  code text primary key,
  parent_code text references shop_public.region,
  name text not null unique
);
create index on shop_public.region (parent_code);
comment on table shop_public.region is 'A part of the world, and of a larger one.';
create table shop_public.customer (
  id uuid primary key,
  number int not null unique,
  region_code text not null references shop_public.region,
  referred_by uuid references shop_public.customer,
  account_id int references shop_private.account,
  name shop_public.label,
  mail shop_public.mail unique,
  nick ext.citext,
  vip boolean not null default false,
  home shop_public.postal,
  likes ext.hstore,
  since date,
  opens time,
  patience interval,
  unique (region_code, number)
);
create index on shop_public.customer (referred_by);
create index on shop_public.customer (nick);
create index on shop_public.customer (since);
comment on column shop_public.customer.vip is E'@deprecated ask for tier\nSpends much.';
comment on constraint customer_referred_by_fkey on shop_public.customer is E'@fieldName referrer\n@foreignFieldName referrals';
create table shop_public.address (
  customer_id uuid not null references shop_public.customer on delete cascade,
  label text not null,
  at shop_public.postal not null,
  primary key (customer_id, label)
);
create table shop_public."order" (
  id bigint generated always as identity primary key,
  customer_id uuid not null references shop_public.customer,
  billing_label text,
  shipping_label text,
  state shop_public.order_state not null default 'draft',
  placed_at timestamptz,
  deliver tstzrange,
  note text,
  constraint order_billing_fkey foreign key (customer_id, billing_label) references shop_public.address,
  constraint order_shipping_fkey foreign key (customer_id, shipping_label) references shop_public.address
);
create index on shop_public."order" (customer_id, billing_label);
create index on shop_public."order" (customer_id, shipping_label);
create index on shop_public."order" (state);
create index on shop_public."order" (placed_at);
comment on constraint order_shipping_fkey on shop_public."order" is E'@fieldName shippingAddress\n@foreignFieldName ordersShippedHere\nWhere it goes.';
create table shop_public.product (
  sku shop_public.sku_code primary key,
  "Title" text not null,
  price numeric(10,2) not null check (price >= 0),
  gross numeric(12,4) generated always as (price * 1.2) stored,
  weight real,
  colours shop_public.colour[] not null default '{}',
  tags shop_public.tag_list,
  size shop_public.dims,
  boxes shop_public.dims[],
  sold_during daterange,
  shelf shop_public.span,
  spans int4range[],
  discounts numrange,
  path ext.ltree,
  corner ext.cube,
  facts jsonb,
  raw json,
  photo bytea,
  replaced_by shop_public.sku_code references shop_public.product,
  discontinued boolean not null default false
);
create index on shop_public.product (replaced_by);
create index on shop_public.product (price);
create index on shop_public.product using gin (tags);
create index on shop_public.product (path);
create unique index on shop_public.product ("Title") where not discontinued;
create table shop_public.order_line (
  order_id bigint not null references shop_public."order" on delete cascade,
  line_no smallint not null,
  sku shop_public.sku_code not null references shop_public.product,
  quantity shop_public.few not null default 1,
  unit_price numeric(10,2) not null,
  amount numeric generated always as (unit_price * quantity) stored,
  paint shop_public.colour,
  primary key (order_id, line_no)
);
create index on shop_public.order_line (sku);
create index on shop_public.order_line (paint, quantity);
create table shop_public.warranty (
  order_id bigint not null,
  line_no smallint not null,
  until date not null,
  primary key (order_id, line_no),
  foreign key (order_id, line_no) references shop_public.order_line on delete cascade
);
create table shop_public.invoice (
  number text primary key,
  order_id bigint not null unique references shop_public."order" deferrable initially deferred,
  total numeric not null,
  paid_on date
);
create table shop_public.category (
  id bigint generated by default as identity primary key,
  parent_id bigint references shop_public.category,
  name text not null,
  rank int,
  unique (parent_id, name)
);
create index on shop_public.category (rank);
create table shop_public.product_category (
  sku shop_public.sku_code references shop_public.product on delete cascade,
  category_id bigint references shop_public.category,
  main boolean not null default false,
  primary key (sku, category_id)
);
create index on shop_public.product_category (category_id);
comment on constraint product_category_category_id_fkey on shop_public.product_category is E'@foreignFieldName listings';
create table shop_public.staff (
  id smallint primary key,
  login text not null unique,
  name text not null,
  salary numeric(9,2),
  manager_id smallint references shop_public.staff,
  mentor_id smallint references shop_public.staff,
  region_code text not null references shop_public.region
);
comment on constraint staff_mentor_id_fkey on shop_public.staff is E'@foreignFieldName mentees';
create index on shop_public.staff (manager_id);
create index on shop_public.staff (mentor_id);
create index on shop_public.staff (region_code);
create table shop_public."Select" (
  "from" int primary key,
  "Group By" text,
  "UPPER" text unique,
  "camelCase" int,
  "with__two" int,
  _lead int,
  "9lives" int
);
create table shop_public.legacy_thing (
  key_a int not null,
  key_b text not null,
  "type" text,
  old_value text,
  primary key (key_a, key_b)
);
comment on table shop_public.legacy_thing is E'@name relic\n@deprecated use something newer\nKept for the museum.';
comment on column shop_public.legacy_thing.old_value is E'@name worth\n@behavior -insert -update';
create table shop_public.setting (name text primary key, value text, secret text);
comment on table shop_public.setting is E'@behavior -insert -update -delete';
comment on column shop_public.setting.secret is E'@behavior -*';
create table shop_public.event (
  id int not null,
  at date not null,
  what text not null,
  primary key (id, at)
) partition by range (at);
create table shop_public.event_2023 partition of shop_public.event for values from ('2023-01-01') to ('2024-01-01');
create table shop_public.event_2024 partition of shop_public.event for values from ('2024-01-01') to ('2025-01-01');
create table shop_public.vehicle (id int primary key, plate text not null);
create table shop_public.truck (load_kg int, primary key (id)) inherits (shop_public.vehicle);
create table shop_public.note (id serial primary key, owner text not null, body text, region_code text references shop_public.region);
create index on shop_public.note (owner);
create index on shop_public.note (region_code);
create table shop_public.keyless (a int, b text);
create index on shop_public.keyless (b);

-- the depots: "product" and "order" again
create table shop_stock.depot (
  region_code text references shop_public.region,
  no int,
  name text not null,
  hours tsrange,
  primary key (region_code, no)
);
create table shop_stock.product (
  region_code text,
  depot_no int,
  sku shop_public.sku_code references shop_public.product,
  on_hand int not null default 0 check (on_hand >= 0),
  counted_at timestamp,
  primary key (region_code, depot_no, sku),
  foreign key (region_code, depot_no) references shop_stock.depot
);
create index on shop_stock.product (sku);
create table shop_stock."order" (
  id bigserial primary key,
  sku shop_public.sku_code not null references shop_public.product,
  from_region text not null,
  from_no int not null,
  to_region text,
  to_no int,
  urgency smallint unique,
  constraint order_from_fkey foreign key (from_region, from_no) references shop_stock.depot,
  constraint order_to_fkey foreign key (to_region, to_no) references shop_stock.depot
);
create index on shop_stock."order" (from_region, from_no);
create index on shop_stock."order" (to_region, to_no);
create index on shop_stock."order" (sku);
comment on constraint order_from_fkey on shop_stock."order" is E'@fieldName source\n@foreignFieldName outgoing';
comment on constraint order_to_fkey on shop_stock."order" is E'@fieldName target\n@foreignFieldName incoming';

-- views
create view shop_public.customer_total as
  select c.id as customer_id, c.number, c.region_code, count(distinct o.id) as orders, coalesce(sum(l.amount), 0) as spent
  from shop_public.customer c left join shop_public."order" o on o.customer_id = c.id left join shop_public.order_line l on l.order_id = o.id
  group by c.id;
comment on view shop_public.customer_total is E'@primaryKey customer_id\n@unique number\n@foreignKey (customer_id) references shop_public.customer (id)|@fieldName customer|@foreignFieldName totals\n@foreignKey (region_code) references shop_public.region (code)\nWhat a customer brought in.';
create view shop_public.open_order as
  select o.id, o.customer_id, o.note, o.state::text as status from shop_public."order" o where o.state in ('draft', 'placed');
comment on view shop_public.open_order is E'@primaryKey id\n@foreignKey (id) references shop_public."order" (id)|@fieldName full|@foreignFieldName asOpen';
create view shop_public.depot_list as select d.region_code, d.no, d.name from shop_stock.depot d;
create materialized view shop_public.sales as
  select sku, sum(quantity)::int as pieces from shop_public.order_line group by sku with no data;
create unique index on shop_public.sales (sku);
create function shop_private.open_order_write() returns trigger language plpgsql as $$
begin
  if tg_op = 'INSERT' then
    insert into shop_public."order" (customer_id, note, state) values (new.customer_id, new.note, coalesce(new.status, 'draft')::shop_public.order_state) returning id, state::text into new.id, new.status;
    return new;
  elsif tg_op = 'UPDATE' then
    update shop_public."order" set note = new.note, state = new.status::shop_public.order_state where id = old.id;
    return new;
  end if;
  delete from shop_public."order" where id = old.id;
  return old;
end $$;
create trigger write instead of insert or update or delete on shop_public.open_order for each row execute function shop_private.open_order_write();

-- rules that speak up
create function shop_private.line_check() returns trigger language plpgsql as $$
begin
  if new.quantity > 100 and new.paint = 'blue' then
    raise exception 'no more than 100 blue ones' using errcode = 'SH001', detail = 'blue is rare', hint = 'take red';
  end if;
  return new;
end $$;
create trigger line_check before insert or update on shop_public.order_line for each row execute function shop_private.line_check();
create function shop_private.invoice_check() returns trigger language plpgsql as $$
begin
  if new.total <> (select coalesce(sum(amount), 0) from shop_public.order_line where order_id = new.order_id) then
    raise exception 'total is wrong' using errcode = 'SH002';
  end if;
  return null;
end $$;
create constraint trigger invoice_check after insert or update on shop_public.invoice deferrable initially deferred for each row execute function shop_private.invoice_check();
create function shop_private.note_trim() returns trigger language plpgsql as $$ begin new.body := btrim(new.body); return new; end $$;
create trigger note_trim before insert or update on shop_public.note for each row execute function shop_private.note_trim();

-- computed columns
create function shop_public.customer_title(c shop_public.customer) returns text language sql stable as $$ select c.number || ' ' || c.name $$;
comment on function shop_public.customer_title(shop_public.customer) is 'Number and name.';
create function shop_public.customer_tier(c shop_public.customer, gold numeric default 500, silver numeric default 100) returns text language sql stable as
  $$ select case when t.spent >= gold then 'gold' when t.spent >= silver then 'silver' else 'none' end from shop_public.customer_total t where t.customer_id = c.id $$;
create function shop_public.customer_last_order(c shop_public.customer) returns shop_public."order" language sql stable as
  $$ select o.* from shop_public."order" o where o.customer_id = c.id order by o.id desc limit 1 $$;
create function shop_public.customer_orders_in(c shop_public.customer, states shop_public.order_state[] default '{draft,placed}') returns setof shop_public."order" language sql stable as
  $$ select o.* from shop_public."order" o where o.customer_id = c.id and o.state = any (states) order by o.id $$;
create function shop_public.customer_town(c shop_public.customer) returns text language sql immutable as $$ select (c.home).town $$;
comment on function shop_public.customer_town(shop_public.customer) is E'@fieldName homeTown';
create function shop_public.order_total(o shop_public."order") returns numeric language sql stable as
  $$ select coalesce(sum(amount), 0) from shop_public.order_line where order_id = o.id $$;
create function shop_public.order_skus(o shop_public."order") returns text[] language sql stable as
  $$ select array_agg(sku::text order by line_no) from shop_public.order_line where order_id = o.id $$;
create function shop_public.product_colour_names(p shop_public.product) returns setof text language sql stable as
  $$ select c::text from unnest(p.colours) with ordinality x(c, n) order by n $$;
create function shop_public.product_grown(p shop_public.product, by_factor numeric) returns shop_public.dims language sql stable strict as
  $$ select ((p.size).width * by_factor, (p.size).height * by_factor, (p.size).depth * by_factor)::shop_public.dims $$;
create function shop_public.product_all_boxes(p shop_public.product) returns setof shop_public.dims language sql stable as
  $$ select b.width, b.height, b.depth from unnest(p.boxes) with ordinality b(width, height, depth, n) order by n $$;
create function shop_public.product_stock_at(p shop_public.product, region text) returns setof shop_stock.product language sql stable as
  $$ select s.* from shop_stock.product s where s.sku = p.sku and s.region_code = region order by s.depot_no $$;
create function shop_public.product_buyers(p shop_public.product, out number int, out name text, out pieces bigint) returns setof record language sql stable as
  $$ select c.number, c.name::text, sum(l.quantity) from shop_public.order_line l join shop_public."order" o on o.id = l.order_id join shop_public.customer c on c.id = o.customer_id
     where l.sku = p.sku group by 1, 2 order by 1 $$;
create function shop_public.region_path(r shop_public.region) returns text language sql stable as
  $$ with recursive up as (select r.code, r.parent_code, 0 as n union all select q.code, q.parent_code, n + 1 from up join shop_public.region q on q.code = up.parent_code)
     select string_agg(code, '/' order by n desc) from up $$;
create function shop_public.dims_volume(d shop_public.dims) returns numeric language sql immutable as $$ select d.width * d.height * d.depth $$;
create function shop_public.customer_total_mean(t shop_public.customer_total) returns numeric language sql stable as
  $$ select round(t.spent / nullif(t.orders, 0), 2) $$;

-- custom queries
create function shop_public.shop_name() returns text language sql immutable as $$ select 'Depot & Sons'::text $$;
create function shop_public.whoami() returns text language sql stable as
  $$ select coalesce(nullif(current_setting('jwt.claims.staff', true), ''), 'nobody') $$;
create function shop_public.add_up(a int, b int default 10, c int default 100) returns int language sql immutable as $$ select a + b + c $$;
create function shop_public.add_up_strict(a int, b int default 10) returns bigint language sql immutable strict as $$ select (a + b)::bigint $$;
create function shop_public.unnamed(int, text) returns text language sql immutable as $$ select $1 || coalesce($2, '-') $$;
create function shop_public.sum_of(variadic numbers int[]) returns int language sql immutable as $$ select sum(n)::int from unnest(numbers) n $$;
create function shop_public.products_tagged(wanted text[] default '{new}', min_price numeric default 0) returns setof shop_public.product language sql stable as
  $$ select p.* from shop_public.product p where p.tags && wanted and p.price >= min_price order by p.sku $$;
create function shop_public.product_in(paint shop_public.colour) returns setof shop_public.product language sql stable as
  $$ select p.* from shop_public.product p where paint = any (p.colours) order by p.price desc, p.sku $$;
create function shop_public.cheapest() returns shop_public.product language sql stable as
  $$ select p.* from shop_public.product p order by p.price, p.sku limit 1 $$;
create function shop_public.no_product() returns shop_public.product language sql stable as
  $$ select p.* from shop_public.product p where false $$;
create function shop_public.order_stats(state shop_public.order_state default 'placed', out orders bigint, out customers bigint, out latest timestamptz) language sql stable as
  $$ select count(*), count(distinct customer_id), max(placed_at) from shop_public."order" o where o.state = $1 $$;
create function shop_public.best_sellers(n int default 3) returns table (sku text, pieces bigint, takings numeric) language sql stable as
  $$ select l.sku::text, sum(l.quantity), sum(l.amount) from shop_public.order_line l group by 1 order by 2 desc, 1 limit n $$;
create function shop_public.one_out(sku text, out price numeric) language sql stable as
  $$ select p.price from shop_public.product p where p.sku = $1 $$;
create function shop_public.skus(prefix text default '') returns setof shop_public.sku_code language sql stable as
  $$ select p.sku from shop_public.product p where p.sku like prefix || '%' order by 1 $$;
create function shop_public.size_of(sku text) returns shop_public.dims language sql stable as
  $$ select (p.size).* from shop_public.product p where p.sku = $1 $$;
create function shop_public.all_sizes() returns setof shop_public.dims language sql stable as
  $$ select (p.size).* from shop_public.product p where p.size is not null order by p.sku $$;
create function shop_public.volume_of(d shop_public.dims) returns numeric language sql immutable as $$ select d.width * d.height * d.depth $$;
create function shop_public.heaviest(of shop_public.product[]) returns text language sql immutable as
  $$ select x.sku::text from unnest(of) x order by x.weight desc nulls last limit 1 $$;
create function shop_public.longest_name(of shop_public.region[]) returns text language sql immutable as
  $$ select x.name from unnest(of) x order by length(x.name) desc, x.name limit 1 $$;
create function shop_public.echo_postal(v shop_public.postal) returns shop_public.postal language sql immutable as $$ select v $$;
create function shop_public.echo_tags(v shop_public.tag_list) returns shop_public.tag_list language sql immutable as $$ select v $$;
create function shop_public.echo_span(v shop_public.span) returns shop_public.span language sql immutable as $$ select v $$;
create function shop_public.echo_ranges(v numrange[]) returns numrange[] language sql immutable as $$ select v $$;
create function shop_public.echo_likes(v ext.hstore) returns ext.hstore language sql immutable as $$ select v $$;
create function shop_public.echo_path(v ext.ltree) returns ext.ltree language sql immutable as $$ select v $$;
create function shop_public.echo_states(v shop_public.order_state[]) returns shop_public.order_state[] language sql immutable as $$ select v $$;
create function shop_public.echo_patience(v interval[]) returns interval[] language sql immutable as $$ select v $$;
create function shop_public.echo_few(v shop_public.few) returns shop_public.few language sql immutable as $$ select v $$;
create function shop_public.echo_dims_list(v shop_public.dims[]) returns shop_public.dims[] language sql immutable as $$ select v $$;
create function shop_public.region_codes() returns text[] language sql stable as $$ select array_agg(code order by code) from shop_public.region $$;
create function shop_public.stock_of(sku text) returns setof shop_stock.product language sql stable as
  $$ select s.* from shop_stock.product s where s.sku = $1 order by 1, 2 $$;
create function shop_public.secret_word() returns text language plpgsql stable as $$ begin return 'sesame'; end $$;
create function shop_public.old_search(term text) returns setof shop_public.region language sql stable as
  $$ select r.* from shop_public.region r where r.name ilike '%' || term || '%' order by r.code $$;
comment on function shop_public.old_search(text) is E'@name findRegions\n@deprecated use allRegions\nLooks in names.';
create function shop_public.fails_on_read(n int) returns int language plpgsql stable as
  $$ begin if n > 2 then raise exception 'too much: %', n using errcode = 'SH003'; end if; return n; end $$;
create function shop_stock.depot_count() returns bigint language sql stable as $$ select count(*) from shop_stock.depot $$;
create function shop_stock.depot_full_name(d shop_stock.depot) returns text language sql stable as $$ select d.region_code || d.no || ' ' || d.name $$;

-- custom mutations
create function shop_public.place_order(customer_id uuid, lines shop_public.line_request[], note text default 'by phone') returns shop_public."order" language plpgsql volatile as $$
declare o shop_public."order";
begin
  insert into shop_public."order" (customer_id, state, placed_at, note) values (place_order.customer_id, 'placed', '2024-05-05T05:05:05Z', place_order.note) returning * into o;
  insert into shop_public.order_line (order_id, line_no, sku, quantity, unit_price, paint)
    select o.id, n, l.sku, coalesce(l.quantity, 1), p.price, l.paint
    from unnest(lines) with ordinality l(sku, quantity, paint, n) join shop_public.product p on p.sku = l.sku;
  return o;
end $$;
create function shop_public.ship(order_ids bigint[], "on" timestamptz default '2024-06-06T06:06:06Z') returns setof shop_public."order" language sql volatile as
  $$ with u as (update shop_public."order" set state = 'Shipped', placed_at = coalesce(placed_at, "on") where id = any (order_ids) returning *) select * from u order by id $$;
create function shop_public.forget(customer_id uuid) returns void language sql volatile as
  $$ update shop_public.customer set home = null, likes = null where id = customer_id $$;
create function shop_public.raise_prices(percent numeric default 10, out changed int, out dearest text) language plpgsql volatile as $$
begin
  update shop_public.product set price = round(price * (1 + percent / 100), 2);
  get diagnostics changed = row_count;
  select sku into dearest from shop_public.product order by price desc, sku limit 1;
end $$;
create function shop_public.next_ticket() returns bigint language sql volatile as $$ select 41::bigint + 1 $$;
create function shop_public.rename_skus(old text[], new text[]) returns setof text language sql volatile as
  $$ select a || '>' || b from unnest(old, new) with ordinality x(a, b, n) order by n $$;
create function shop_public.import_regions(rows shop_public.region[]) returns setof shop_public.region language sql volatile as
  $$ with i as (insert into shop_public.region select * from unnest(rows) returning *) select * from i order by code $$;
create function shop_public.adopt(region shop_public.region, child text) returns shop_public.region language sql volatile as
  $$ update shop_public.region set parent_code = region.code where code = child returning * $$;
create function shop_public.strict_bump(sku text, by numeric) returns shop_public.product language sql volatile strict as
  $$ update shop_public.product p set price = p.price + by where p.sku = $1 returning * $$;
create function shop_public.refuse(why text default 'closed') returns int language plpgsql volatile as
  $$ begin raise exception '%', why using errcode = 'SH009', detail = 'the door', hint = 'come back'; end $$;
create function shop_public.restock(items shop_stock.product[]) returns int language sql volatile as
  $$ with u as (insert into shop_stock.product select * from unnest(items) on conflict (region_code, depot_no, sku) do update set on_hand = excluded.on_hand returning 1) select count(*)::int from u $$;
create function shop_public.split_size(size shop_public.dims, parts int) returns shop_public.dims[] language sql volatile as
  $$ select array_agg((size.width / parts, size.height, size.depth)::shop_public.dims) from generate_series(1, parts) $$;
create function shop_public.top_two(out first_sku text, out second_sku text) returns setof record language sql volatile as
  $$ select 'AB-1'::text, 'AB-2'::text union all select 'AB-3', null $$;
create function shop_public.set_mood(mood text) returns text language sql volatile as $$ select mood $$;
comment on function shop_public.set_mood(text) is E'@name cheerUp\n@deprecated nobody cares';

-- rows
insert into shop_private.account select i, 'secret ' || i from generate_series(1, 5) i;
insert into shop_public.region values ('EU', null, 'Europe'), ('DE', 'EU', 'Germany'), ('FR', 'EU', 'France'), ('BY', 'DE', 'Bavaria'), ('US', null, 'United States'), ('ÖS', 'EU', 'Österreich');
insert into shop_public.customer
select ('00000000-0000-4000-8000-' || lpad(i::text, 12, '0'))::uuid, 100 + i, (array['DE', 'FR', 'BY', 'US'])[1 + i % 4],
  case when i % 3 = 0 then ('00000000-0000-4000-8000-' || lpad((i / 3)::text, 12, '0'))::uuid end,
  case when i <= 5 then i end, 'Customer ' || i,
  case when i % 6 = 0 then null else 'Mail' || i || '@Example.com' end, case when i % 5 = 0 then null else (array['Bo', 'bo', 'Al'])[1 + i % 3] end, i % 7 = 0,
  case when i % 4 = 0 then null when i % 4 = 1 then row('Street ' || i, 'Town' || (i % 5), '0' || i, row(i / 4.0, -i)::shop_public.geo)::shop_public.postal else row('Lane "' || i || '"', null, null, null)::shop_public.postal end,
  case when i % 4 = 0 then null else ext.hstore(array['tea', 'n'], array[case when i % 2 = 0 then 'green' end, i::text]) end,
  case when i % 8 = 0 then null else date '2020-02-28' + i end, time '08:00' + i * interval '7 minutes', make_interval(months => i, days => i % 3, secs => i * 0.5)
from generate_series(1, 24) i;
insert into shop_public.address
select c.id, l, row(l || ' ' || c.number, 'Town', null, null)::shop_public.postal from shop_public.customer c, unnest(array['home', 'work']) l where l = 'home' or c.number % 2 = 0;
insert into shop_public."order" (customer_id, billing_label, shipping_label, state, placed_at, deliver, note)
select c.id, case when i % 3 = 0 then null else 'home' end, case when c.number % 2 = 0 then 'work' else 'home' end,
  (array['draft', 'placed', 'Shipped', 'RETURNED', 'on_hold'])[1 + i % 5]::shop_public.order_state,
  case when i % 5 = 0 then null else timestamptz '2024-03-01 00:00Z' + (i % 17) * interval '1 day 1 hour' end,
  case when i % 4 = 0 then null else tstzrange(timestamptz '2024-04-01Z' + i * interval '1 day', case when i % 4 = 1 then null else timestamptz '2024-04-03Z' + i * interval '1 day' end) end,
  case when i % 6 = 0 then 'Note ' || i end
from generate_series(1, 60) i join shop_public.customer c on c.number = 100 + 1 + (i * 7) % 20 order by i;
insert into shop_public.product (sku, "Title", price, weight, colours, tags, size, boxes, sold_during, shelf, spans, discounts, path, corner, facts, raw, photo, discontinued)
select 'AB-' || i, case when i > 28 then 'Thing 28' else 'Thing ' || i end, (i % 9) * 12.5 + 0.25, case when i % 5 = 0 then null else i / 8.0 end,
  (array['{red}', '{green,blue}', '{2tone,NULL}', '{}'])[1 + i % 4]::shop_public.colour[],
  case when i % 6 = 0 then null else array['t' || i % 3, case when i % 2 = 0 then 'new' else 'a "b", c' end] end,
  case when i % 3 = 0 then null else row(i, 2.50, null)::shop_public.dims end,
  case when i % 4 = 0 then null when i % 4 = 1 then '{}' else array[row(1, 2, i)::shop_public.dims, null, row(null, null, 0.5)::shop_public.dims] end,
  case when i % 5 = 0 then null else daterange(date '2024-01-01' + i, case when i % 2 = 0 then date '2025-01-01' end) end,
  case when i % 7 = 0 then null else int4range(i, i + 3, '[]') end,
  case when i % 4 = 0 then null else array[int4range(1, i + 2), null, int4range(null, 5)] end,
  case when i % 3 = 0 then null else numrange(i / 10.0, 1 + i, '(]') end,
  ('Top.Branch_' || i % 3 || '.n' || i)::ext.ltree, ('(' || i || ',2)')::ext.cube,
  case when i % 4 = 0 then null else jsonb_build_object('n', i, 'list', array[i, null], 'deep', jsonb_build_object('x', 'ü"')) end,
  case when i % 4 = 0 then null else ('{"z": ' || i || ',  "a": [1.50]}')::json end,
  case when i % 2 = 0 then null else decode(lpad(to_hex(i), 4, '0'), 'hex') end, i > 28
from generate_series(1, 30) i;
update shop_public.product set replaced_by = 'AB-' || (substr(sku, 4)::int - 28) where discontinued;
insert into shop_public.order_line (order_id, line_no, sku, quantity, unit_price, paint)
select o.id, n, 'AB-' || (1 + (o.id * 5 + n * 3) % 26), 1 + (o.id + n) % 7, ((o.id + n) % 9) * 12.5 + 0.25, (array['red', 'green', null, 'blue'])[1 + (o.id + n) % 4]::shop_public.colour
from shop_public."order" o, generate_series(1, 4) n where n <= o.id % 5;
insert into shop_public.warranty select order_id, line_no, date '2026-01-01' + order_id::int from shop_public.order_line where line_no = 2;
insert into shop_public.invoice select 'R' || lpad(o.id::text, 4, '0'), o.id, shop_public.order_total(o), case when o.id % 2 = 0 then date '2024-07-01' + o.id::int end from shop_public."order" o where o.state in ('Shipped', 'RETURNED');
insert into shop_public.category (id, parent_id, name, rank) values (1, null, 'All', 5), (2, 1, 'Tools', 3), (3, 1, 'Toys', null), (4, 2, 'Saws', 3), (9007199254740993, 3, 'Big', 1), (6, null, 'All', null);
select setval(pg_get_serial_sequence('shop_public.category', 'id'), 100);
insert into shop_public.product_category select 'AB-' || i, c, c = 2 from generate_series(1, 12) i, unnest(array[2, 4, 9007199254740993]) c where (i + c) % 2 = 0;
insert into shop_public.staff values (1, 'anna', 'Anna', 9000, null, null, 'EU'), (2, 'ben', 'Ben', 5000, 1, 1, 'DE'), (3, 'cleo', 'Cleo', 5100.5, 1, 2, 'FR'), (4, 'dan', 'Dan', null, 2, 3, 'DE'), (5, 'eve', 'Eve', 4000, 2, null, 'BY');
insert into shop_public."Select" values (1, 'x', 'U1', 10, 20, 30, 40), (2, null, null, null, null, null, null), (3, 'z', 'U3', 1, 2, 3, 4);
insert into shop_public.legacy_thing values (1, 'a', 'k', 'old'), (1, 'b', null, null), (2, 'a', 'm', 'v');
insert into shop_public.setting values ('theme', 'dark', 's1'), ('lang', null, 's2');
insert into shop_public.event select i, date '2023-11-01' + i * 10, 'event ' || i from generate_series(1, 12) i;
insert into shop_public.vehicle values (1, 'V-1'), (2, 'V-2');
insert into shop_public.truck values (3, 'T-3', 7500);
insert into shop_public.note (owner, body, region_code) select (array['anna', 'ben', 'cleo'])[1 + i % 3], 'note ' || i, (array['DE', null, 'FR'])[1 + i % 3] from generate_series(1, 9) i;
insert into shop_public.keyless values (1, 'x'), (2, 'x'), (1, 'y'), (null, null);
insert into shop_stock.depot values ('DE', 1, 'Berlin', '[2024-01-01 06:00,2024-01-01 18:30)'), ('DE', 2, 'Köln', null), ('FR', 1, 'Lyon', '[2024-01-01 00:00:00.5,)'), ('BY', 7, 'Hof', 'empty');
insert into shop_stock.product select d.region_code, d.no, 'AB-' || i, (i * d.no) % 11, timestamp '2024-02-01 12:00' + i * interval '1 hour' from shop_stock.depot d, generate_series(1, 10) i where (i + d.no) % 2 = 0;
insert into shop_stock."order" (sku, from_region, from_no, to_region, to_no, urgency) values
  ('AB-1', 'DE', 1, 'FR', 1, 3), ('AB-2', 'DE', 1, 'DE', 2, null), ('AB-3', 'FR', 1, null, null, 1), ('AB-1', 'BY', 7, 'DE', 1, null), ('AB-4', 'DE', 2, 'DE', null, 2);
refresh materialized view shop_public.sales;

-- who may do what
alter table shop_public.note enable row level security;
create policy mine on shop_public.note for all to shop_clerk using (owner = shop_public.whoami()) with check (owner = shop_public.whoami());
create policy published on shop_public.note for select to shop_guest using (region_code is not null);
create policy everything on shop_public.note for all to shop_manager using (true);
alter table shop_public.staff enable row level security;
alter table shop_public.staff force row level security;
create policy colleagues on shop_public.staff for select using (true);
create policy self on shop_public.staff for update to shop_clerk using (login = shop_public.whoami()) with check (region_code in ('DE', 'FR'));
create policy boss on shop_public.staff to shop_manager using (manager_id = nullif(current_setting('jwt.claims.staff_id', true), '')::smallint);
alter table shop_public.customer enable row level security;
create policy by_region on shop_public.customer for select to shop_guest, shop_clerk using (region_code = coalesce(nullif(current_setting('jwt.claims.region', true), ''), region_code));
create policy manage on shop_public.customer to shop_manager using (true);
grant select on shop_public.region, shop_public.category, shop_public.product, shop_public.product_category, shop_public.sales, shop_public."Select", shop_public.setting, shop_public.event to shop_guest, shop_clerk, shop_manager;
grant select on shop_public.note to shop_guest, shop_clerk, shop_manager;
grant select on shop_public.customer, shop_public.address, shop_public."order", shop_public.order_line, shop_public.invoice, shop_public.customer_total, shop_public.open_order to shop_clerk, shop_manager;
grant select (id, number, name, region_code) on shop_public.customer to shop_guest;
grant select (id, login, name, region_code, manager_id), update (name, region_code) on shop_public.staff to shop_clerk;
grant select, insert, update, delete on shop_public.staff to shop_manager;
grant insert (owner, body), update (body), delete on shop_public.note to shop_clerk;
grant insert, update, delete on shop_public.note to shop_manager;
grant insert (customer_id, note, state), update (state, note) on shop_public."order" to shop_clerk;
grant insert, update (quantity, paint), delete on shop_public.order_line to shop_clerk;
grant insert, update, delete on shop_public.region to shop_manager;
grant usage on all sequences in schema shop_public to shop_clerk, shop_manager;
grant select on shop_stock.product, shop_stock.depot to shop_clerk, shop_manager;
grant insert, update (on_hand) on shop_stock.product to shop_clerk;
revoke execute on function shop_public.secret_word(), shop_public.refuse(text), shop_public.raise_prices(numeric) from public;
grant execute on function shop_public.raise_prices(numeric) to shop_manager;
grant execute on function shop_public.refuse(text) to shop_clerk;
reset role;
analyze;
