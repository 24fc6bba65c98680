package graphql

import (
	"testing"

	"github.com/leveehq/levee/internal/pglocal/pgtest"
)

// scratch is a database whose rows are put back after they were changed. It was made anew from a template once, which took six
// times as long, and cut the connections of the service each time.
type scratch string

// keep remembers all rows and sequences, in a schema that is not served.
func keep(t *testing.T, database string) scratch {
	t.Helper()
	pgtest.Exec(t, database, keepSQL)
	return scratch(database)
}

func (d scratch) reset(t *testing.T) {
	t.Helper()
	pgtest.Exec(t, string(d), "select kept.back()")
}

// keepSQL makes kept.back(), which puts back the tables that are not as they were: count and latest transaction tell. It deletes
// rather than truncates, which would change the catalog, and so have the service build its instance anew.
const keepSQL = `
create schema kept;
create table kept.tables (oid oid, columns text, mark text);
create table kept.sequences (oid oid, last bigint, called boolean);

create function kept.mark(t regclass) returns text language plpgsql as $$
declare m text;
begin
	execute format('select count(*) || '' '' || coalesce(max(xmin::text::bigint), 0) from only %s', t) into m;
	return m;
end $$;

create function kept.back() returns void language plpgsql as $$
declare t record;
begin
	perform set_config('session_replication_role', 'replica', true); -- no triggers, no foreign keys
	for t in select * from kept.tables loop
		continue when kept.mark(t.oid::regclass) = t.mark;
		execute format('delete from only %s', t.oid::regclass);
		execute format('insert into %s (%s) overriding system value select %s from kept.%I', t.oid::regclass, t.columns, t.columns, t.oid);
		update kept.tables set mark = kept.mark(t.oid::regclass) where oid = t.oid;
	end loop;
	perform setval(oid::regclass, last, called) from kept.sequences;
end $$;

do $$
declare o oid;
begin
	for o in select c.oid from pg_class c join pg_namespace n on n.oid = relnamespace where relkind = 'r' and nspname !~ '^(pg_|information_schema$|kept$)' loop
		execute format('create table kept.%I as select * from only %s', o, o::regclass);
		insert into kept.tables select o, string_agg(quote_ident(attname), ', ' order by attnum), kept.mark(o::regclass)
			from pg_attribute where attrelid = o and attnum > 0 and not attisdropped and attgenerated = '';
	end loop;
	for o in select oid from pg_class where relkind = 'S' loop
		execute format('insert into kept.sequences select %s, last_value, is_called from %s', o, o::regclass);
	end loop;
end $$`
