-- Every type that PostgreSQL has and a column may be of, alone, in arrays, under domains and in composites. Loaded by a superuser.
set client_min_messages = warning;
create extension hstore;
create extension citext;
create extension ltree;
create schema app;
create domain app.d_point as point;
create domain app.d_path as path;
create domain app.d_oid as oid;
create domain app.d_bits as varbit;
create domain app.d_points as point[];
create domain app.d_money as money;
create domain app.d_hstore as hstore;
create domain app.d_class as regclass;
create domain app.d_strict_point as point not null;
create type app.place as (name text, at point, area polygon, ring circle, spots point[]);
create table app.shape (
  id int primary key, point point, line line, lseg lseg, box box, path path, polygon polygon, circle circle,
  points point[], lines line[], lsegs lseg[], boxes box[], paths path[], polygons polygon[], circles circle[],
  must point not null, d_point app.d_point, d_path app.d_path, d_points app.d_points, d_strict app.d_strict_point, arr_d app.d_point[], place app.place, places app.place[]);
create index on app.shape using gist (point);
create index on app.shape using gist (box);
create index on app.shape using gist (polygon);
create index on app.shape using gist (circle);
create function app.echo_point(p point) returns point language sql stable as 'select p';
create function app.echo_path(p path, b box, c circle) returns path language sql stable as 'select p';
create function app.echo_points(p point[]) returns point[] language sql stable as 'select p';
create function app.set_of_points() returns setof point language sql stable as $$ values ('(1,2)'::point), (null), ('(3.5,-4)'::point) $$;
create function app.rec(out a point, out b polygon) returns record language sql stable as $$ select '(1,2)'::point, '((0,0),(1,1),(2,0))'::polygon $$;
create function app.shape_middle(s app.shape) returns point language sql stable as $$ select center(s.box) $$;
create function app.move_shape(id int, to_point point, along app.d_path default null) returns app.shape language sql volatile set search_path=app as $$ update app.shape set point = to_point where id = move_shape.id returning * $$;
create function app.echo_place(p app.place) returns app.place language sql stable as 'select p';
create function app.echo_d(p app.d_point) returns app.d_point language sql stable as 'select p';

create domain app.d_name as name;
create domain app.d_char as "char";
create domain app.d_xml as xml;
create domain app.d_ltree as ltree;
create domain app.d_citext as citext;
create domain app.d_bit as bit(3);
create domain app.d_uuid as uuid;
create domain app.d_money_array as money[];
create domain app.d_macaddr8 as macaddr8;
create domain app.d_int2 as int2;
create domain app.d_jsonpath as jsonpath;
create table app.scalar (
  id int primary key, a_oid oid, a_regclass regclass, a_regproc regproc, a_regprocedure regprocedure, a_regoper regoper, a_regoperator regoperator, a_regtype regtype,
  a_regrole regrole, a_regnamespace regnamespace, a_regconfig regconfig, a_regdictionary regdictionary, a_name name, a_char "char", a_bpchar char(4), a_varchar varchar(9),
  a_text text, a_bit bit(3), a_varbit varbit, a_xml xml, a_jsonpath jsonpath, a_macaddr macaddr, a_macaddr8 macaddr8, a_int2 int2,
  a_money money, a_hstore hstore, a_citext citext, a_ltree ltree, a_timetz timetz, a_bytea bytea, a_uuid uuid, a_inet inet,
  a_cidr cidr, l_oid oid[], l_regclass regclass[], l_regtype regtype[], l_name name[], l_char "char"[], l_bpchar char(4)[], l_bit bit(3)[],
  l_varbit varbit[], l_xml xml[], l_jsonpath jsonpath[], l_macaddr8 macaddr8[], l_int2 int2[], l_money money[], l_hstore hstore[], l_citext citext[],
  l_ltree ltree[], l_bytea bytea[], l_uuid uuid[], l_timetz timetz[], l_inet inet[], l_cidr cidr[], l_numeric numeric[], l_float4 float4[],
  l_bool bool[], l_json json[], d_oid app.d_oid, d_bits app.d_bits, d_money app.d_money, d_hstore app.d_hstore, d_class app.d_class, d_name app.d_name,
  d_char app.d_char, d_xml app.d_xml, d_ltree app.d_ltree, d_citext app.d_citext, d_bit app.d_bit, d_uuid app.d_uuid, d_moneys app.d_money_array, d_mac app.d_macaddr8,
  d_int2 app.d_int2, d_jsonpath app.d_jsonpath, ld_oid app.d_oid[], ld_hstore app.d_hstore[], ld_class app.d_class[], ld_citext app.d_citext[], ld_bits app.d_bits[]);
create view app.all_scalars as select * from app.scalar; -- all columns of a view count as indexed
create view app.all_shapes as select * from app.shape;
do $$ declare r record; begin
  for r in select attname, pg_catalog.format_type(atttypid, -1) t from pg_catalog.pg_attribute where attrelid in ('app.scalar'::regclass) and attnum > 1 loop
    execute format('create function app.e_%s(v %s) returns %s language sql stable as ''select v''', r.attname, r.t, r.t);
  end loop; end $$;

insert into app.shape (id, point, line, lseg, box, path, polygon, circle, points, lines, lsegs, boxes, paths, polygons, circles, must, d_point, d_path, d_points, d_strict, arr_d, place, places) values
 (1, '(1,2)', '{1,-1,0}', '[(0,0),(1,1)]', '(3,4),(1,2)', '[(0,0),(1,1),(2,0)]', '((0,0),(1,1),(2,0))', '<(1,2),3>', '{"(1,2)",NULL,"(3,4)"}', '{"{1,-1,0}"}', '{"[(0,0),(1,1)]",NULL}', '{(3,4),(1,2);(1,1),(0,0)}', '{"((0,0),(1,1))","[(0,0),(1,1)]"}', '{"((0,0),(1,1),(2,0))"}', '{"<(1,2),3>"}', '(0,0)', '(5,6)', '((0,0),(5,6))', '{"(7,8)"}', '(9,10)', '{"(1,1)",NULL}', row('here','(1,2)','((0,0),(1,1),(2,0))','<(0,0),1>',array['(1,2)'::point]), array[row('a','(1,2)',null,null,null)::app.place, null]),
 (2, '(1e300,-0)', '{0,1,-3}', '[(1.5,1e-7),(1,1)]', '(0,0),(0,0)', '((0,0))', '((0,0))', '<(0,0),0>', '{}', '{}', '{}', '{}', '{}', '{}', '{}', '(1,1)', null, null, '{}', '(0,0)', '{}', null, '{}'),
 (3, null, '{1,0,-2}', null, null, null, null, null, null, null, null, null, null, null, null, '(0.1,0.30000000000000004)', null, null, null, '(0,0)', null, row(null,null,null,null,null), null),
 (4, '(NaN,Infinity)', '{2,3,4}', '[(Infinity,0),(1,1)]', '(Infinity,1),(0,0)', null, null, '<(1,1),Infinity>', null, null, null, null, null, null, null, '(0.1,0.30000000000000004)', null, null, null, '(0,0)', null, null, null);
insert into app.scalar values
 (1, 4294967295, 'pg_class', 'now', 'abs(int)', '||/', '+(int,int)', 'int[]',
  'postgres', 'pg_catalog', 'english', 'simple', 'a name', 'x', 'ab', 'v"c',
  'te''xt', B'101', B'10110', '<a>1</a>', '$.a[*]', '08:00:2b:01:02:03', '08:00:2b:01:02:03:04:05', 7,
  '$1,234.56', 'a=>1,b=>NULL', 'CiText', 'Top.Science', '13:14:15+05:30', '\xdeadbeef', '00000000-0000-4000-8000-000000000001', '192.168.0.1/24',
  '10.1.0.0/16', '{4294967295,NULL}', '{pg_class,NULL}', '{int4,text}', '{"a name",NULL}', '{x,NULL}', '{ab,NULL}', '{101,NULL}',
  '{10110,NULL}', '{<a>1</a>,NULL}', '{"$.a[*]"}', '{08:00:2b:01:02:03:04:05}', '{7,NULL}', array['$1,234.56'::money,null], array['a=>1,b=>NULL'::hstore,null], '{CiText,NULL}',
  '{Top.Science}', array['\xdead'::bytea,null], '{00000000-0000-4000-8000-000000000001}', '{13:14:15+05:30,NULL}', '{192.168.0.1/24,10.0.0.1}', '{10.1.0.0/16}', '{1.50,NaN}', '{1.5,0.1}',
  '{t,NULL,f}', array['{"a": 1}'::json,null], 42, B'1', '-$5.00', 'x=>y', 'pg_type', 'n',
  'c', '<b/>', 'a.b', 'CI', B'111', '00000000-0000-4000-8000-000000000001', array['$1.00'::money], '08:00:2b:01:02:03:04:05',
  3, '$', '{1,NULL}', array['x=>y'::app.d_hstore,null], array['pg_type'::app.d_class,null], '{AB,NULL}', '{1,NULL}'),
 (2, null, null, null, null, null, null, null, null, null, null, null, null, null, null, null, null, null, null, null, null, null, null, null, null, null, null, null, null, null, null, null, null, null, null, null, null, null, null, null, null, null, null, null, null, null, null, null, null, null, null, null, null, null, null, null, null, null, null, null, null, null, null, null, null, null, null, null, null, null, null, null, null, null, null, null, null, null, null);
