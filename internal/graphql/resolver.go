package graphql

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/leveehq/levee/internal/graphql/pgpool"
)

// askRoute runs the operator's statement, wrapped so that it may return columns in any order and leave some out.
func (s *Service) askRoute(ctx context.Context, name string) (*resolved, error) {
	r := s.opt.Resolver
	var found []byte
	err := s.routeDB.Do(ctx, "levee:resolver", pgpool.Request{
		Timeout: routeTimeout, Idempotent: true,
		Statements: []pgpool.Statement{{
			SQL: "select pg_catalog.row_to_json(t) from (" + strings.TrimRight(strings.TrimSpace(r.SQL), ";") + ") t limit 2", Params: [][]byte{[]byte(name)}, TextResults: true,
			Each: func(row [][]byte) error {
				if found != nil {
					return fmt.Errorf("graphql.resolver.sql returns more than one row for %q: a name leads to one tenant", name)
				}
				found = append([]byte{}, row[0]...)
				return nil
			},
		}},
	})
	if err != nil || found == nil {
		return nil, err
	}
	return s.readRoute(name, found)
}

type routeRow struct {
	DatabaseURL   string            `json:"database_url"`
	Schemas       texts             `json:"schemas"`
	AnonymousRole *string           `json:"anonymous_role"`
	DefaultRole   *string           `json:"default_role"`
	Roles         texts             `json:"roles"`
	Settings      map[string]string `json:"settings"`
}

// texts is an array, or one text with commas.
type texts []string

func (t *texts) UnmarshalJSON(b []byte) error {
	var one string
	if json.Unmarshal(b, &one) == nil {
		*t = nil
		for _, part := range strings.Split(one, ",") {
			if part = strings.TrimSpace(part); part != "" {
				*t = append(*t, part)
			}
		}
		return nil
	}
	return json.Unmarshal(b, (*[]string)(t))
}

func (s *Service) readRoute(name string, found []byte) (*resolved, error) {
	var row routeRow
	if err := json.Unmarshal(found, &row); err != nil {
		return nil, fmt.Errorf("graphql.resolver.sql, answer for %q: %w", name, err)
	}
	if row.DatabaseURL == "" || len(row.Schemas) == 0 {
		return nil, fmt.Errorf("graphql.resolver.sql, answer for %q: it needs database_url and schemas", name)
	}
	t := Tenant{Name: name, DatabaseURL: row.DatabaseURL, Schemas: row.Schemas, Settings: row.Settings, Auth: s.opt.Resolver.Auth, AllowBypassRLS: s.opt.Resolver.AllowBypassRLS}
	if row.AnonymousRole != nil {
		t.Auth.AnonymousRole = *row.AnonymousRole
	}
	if row.DefaultRole != nil {
		t.Auth.DefaultRole = *row.DefaultRole
	}
	if row.Roles != nil {
		t.Auth.Roles = row.Roles
	}
	return s.resolve(t)
}
