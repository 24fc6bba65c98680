package git

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/leveehq/levee/internal/git/mirror"
	"github.com/leveehq/levee/internal/git/upstream"
)

// Admin is for operators: it lists mirrors, makes them and removes them. It is mounted on the admin listener alone.
//
//	GET  /git/mirrors                 a JSON list of mirror.Info
//	POST /git/warm?repo=HOST/PATH     makes a mirror, and answers when it is ready
//	POST /git/evict?repo=HOST/PATH    removes one when nobody uses it any more
func (s *Service) Admin() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /git/mirrors", func(w http.ResponseWriter, _ *http.Request) {
		list := s.store.List()
		if list == nil {
			list = []mirror.Info{}
		}
		answerJSON(w, list)
	})
	mux.HandleFunc("POST /git/warm", s.adminRepo(s.warm))
	mux.HandleFunc("POST /git/evict", s.adminRepo(s.evict))
	return mux
}

// adminRepo resolves the repository that a request names.
func (s *Service) adminRepo(do func(http.ResponseWriter, *http.Request, upstream.Repo)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		name := strings.Trim(r.URL.Query().Get("repo"), "/")
		repo, _, _, err := s.upstream.Resolve(name + "/" + string(upstream.InfoRefs))
		if err != nil {
			code := http.StatusBadRequest
			var path *upstream.PathError
			if errors.As(err, &path) {
				code = path.Status
			}
			http.Error(w, fmt.Sprintf("repo=%q: %v", name, err), code)
			return
		}
		do(w, r, repo)
	}
}

// warm waits as long as its caller does: the mirror is made in any case.
func (s *Service) warm(w http.ResponseWriter, r *http.Request, repo upstream.Repo) {
	_ = http.NewResponseController(w).SetWriteDeadline(time.Time{})
	v, err := s.mirrors.Refs(r.Context(), repo, upstream.Credentials{})
	if err == nil {
		var le lease
		if le, err = s.mirrors.Lease(r.Context(), repo, upstream.Credentials{}, v, nil); err == nil {
			le.Release()
		}
	}
	_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(s.opt.Stall))
	if err != nil {
		http.Error(w, fmt.Sprintf("%v: %v", repo, err), adminStatus(err))
		return
	}
	for _, m := range s.store.List() {
		if m.Repo == repo.String() {
			answerJSON(w, m)
			return
		}
	}
	http.Error(w, fmt.Sprintf("%v was made ready and has been evicted since", repo), http.StatusConflict)
}

func adminStatus(err error) int {
	var f *upstream.Failure
	if errors.As(err, &f) && (f.Kind == upstream.NotFound || f.Kind == upstream.Unauthorized) {
		return http.StatusNotFound
	}
	return http.StatusBadGateway
}

func (s *Service) evict(w http.ResponseWriter, _ *http.Request, repo upstream.Repo) {
	if !s.store.Evict(repo) {
		http.Error(w, fmt.Sprintf("%v has no mirror here", repo), http.StatusNotFound)
		return
	}
	answerJSON(w, map[string]string{"evicted": repo.String()})
}

func answerJSON(w http.ResponseWriter, v any) {
	w.Header().Set("Content-Type", "application/json")
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	if err := e.Encode(v); err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
	}
}
