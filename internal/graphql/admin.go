package graphql

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"
)

// Admin is for operators. It is mounted on the admin listener alone.
//
//	GET  /graphql/tenants               a JSON list of TenantStatus
//	POST /graphql/flush?tenant=NAME     the tenant's next request builds anew; requests under way end on the old instance
//	POST /graphql/flush?all=true        all of them
//	GET  /graphql/sdl?tenant=NAME       the tenant's schema definition
//
// A tenant without name is that of /graphql itself.
func (s *Service) Admin() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /graphql/tenants", func(w http.ResponseWriter, _ *http.Request) { answerJSON(w, s.List()) })
	mux.HandleFunc("POST /graphql/flush", s.flush)
	mux.HandleFunc("GET /graphql/sdl", s.sdl)
	return mux
}

func (s *Service) flush(w http.ResponseWriter, r *http.Request) {
	if r.URL.Query().Get("all") == "true" {
		s.routes.forget("")
		answerJSON(w, map[string]int{"flushed": s.cache.EvictWhere(func(instanceKey) bool { return true })})
		return
	}
	name := r.URL.Query().Get("tenant")
	s.routes.forget(name)
	n := 0
	for _, in := range s.cache.Instances() { // by name, not by what the name leads to now: that may have changed
		if t := s.tenants.get(in.Key); t != nil && t.name == name && s.cache.Evict(in.Key) {
			n = 1
		}
	}
	if n == 0 && s.byName[name] == nil && s.opt.Resolver == nil {
		http.Error(w, fmt.Sprintf("there is no tenant %q", name), http.StatusNotFound)
		return
	}
	answerJSON(w, map[string]int{"flushed": n})
}

func (s *Service) sdl(w http.ResponseWriter, r *http.Request) {
	ctx, cancel := context.WithTimeout(r.Context(), s.opt.BuildWait)
	defer cancel()
	_ = http.NewResponseController(w).SetWriteDeadline(time.Time{})
	name := r.URL.Query().Get("tenant")
	t := s.byName[name] // "" is the tenant of /graphql itself
	var err error
	if t == nil && name != "" {
		t, err = s.tenant(ctx, address{name, byPath})
	}
	if err == nil && t == nil {
		http.Error(w, fmt.Sprintf("there is no tenant %q", name), http.StatusNotFound)
		return
	}
	var in lease
	if err == nil {
		in, err = s.lease(ctx, t)
	}
	if err != nil {
		http.Error(w, err.Error(), http.StatusServiceUnavailable)
		return
	}
	defer in.Release()
	_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(answerPatience))
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	if err := in.Value().schema.WriteSDL(w); err != nil {
		panic(http.ErrAbortHandler) // what was cut off must not look whole
	}
}

func answerJSON(w http.ResponseWriter, v any) {
	w.Header().Set("Content-Type", "application/json")
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	if err := e.Encode(v); err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
	}
}

// databaseName is a connection URL without what is secret in it.
func databaseName(text string) string {
	u, err := url.Parse(text)
	if err != nil || u.Host == "" && u.Path == "" || !strings.HasPrefix(u.Scheme, "postgres") {
		return "a database"
	}
	user := ""
	if u.User != nil {
		user = u.User.Username() + "@"
	}
	return user + u.Host + u.Path
}
