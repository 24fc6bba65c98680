package serve

import (
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/rs/cors"

	"github.com/leveehq/levee/internal/git"
	"github.com/leveehq/levee/internal/graphql"
	"github.com/leveehq/levee/internal/hostguard"
	"github.com/leveehq/levee/internal/listen"
)

// memoryOfBazel is what is left of the limit when the others have their parts.
func (a *App) memoryOfBazel() int64 {
	left := a.kernel.Limit()
	if a.git != nil {
		left -= a.git.Memory()
	}
	if a.graphql != nil {
		left -= a.graphql.Memory()
	}
	return left
}

// route sends the paths of git and GraphQL to them, and all others to Bazel's cache. What Bazel asks of an instance called git
// or graphql is the cache's to answer: it says that the name is reserved, and a 404 of ours would pass for a miss.
func (a *App) route(guard *hostguard.Guard) (http.Handler, error) {
	toGit, toGraphQL := http.Handler(http.HandlerFunc(gitIsOff)), guard.Wrap(http.HandlerFunc(graphqlIsOff))
	if a.git != nil {
		toGit = wholeHeader(a.git)
	}
	if a.graphql != nil {
		var err error
		if toGraphQL, err = a.openToPages(guard); err != nil {
			return nil, err
		}
	}
	caches := guard.Wrap(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if rest, ok := strings.CutPrefix(r.URL.EscapedPath(), git.Prefix); ok && !ofBazel(rest) {
			toGit.ServeHTTP(w, r)
			return
		}
		a.cache.ServeHTTP(w, r)
	}))
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		path := r.URL.EscapedPath()
		if rest, ok := strings.CutPrefix(path, graphql.Prefix+"/"); path == graphql.Prefix || ok && !ofBazel(rest) {
			toGraphQL.ServeHTTP(w, r)
			return
		}
		caches.ServeHTTP(w, r)
	}), nil
}

// wholeHeader refuses requests whose header has no end, for a handler that does not look.
func wholeHeader(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		cut := listen.CutOf(r.Context())
		if cut == nil {
			next.ServeHTTP(w, r)
			return
		}
		http.Error(w, cut.Err.Error(), http.StatusRequestHeaderFieldsTooLarge)
	})
}

// openToPages lets pages of the origins that are listed ask GraphQL, and nothing else.
func (a *App) openToPages(guard *hostguard.Guard) (http.Handler, error) {
	origins := a.cfg.GraphQL.Origins
	if len(origins) == 0 {
		return guard.Wrap(a.graphql), nil
	}
	guard, err := hostguard.New(hostguard.Options{Hosts: a.cfg.Listen.Hosts, Setting: "listen.hosts", Origins: origins})
	if err != nil {
		return nil, fmt.Errorf("graphql.origins: %w", err)
	}
	pages := cors.New(cors.Options{
		AllowedOrigins: origins,
		AllowedMethods: []string{http.MethodPost},
		AllowedHeaders: []string{"Accept", "Authorization", "Content-Type"},
		ExposedHeaders: []string{"Retry-After"},
		MaxAge:         int(corsAge.Seconds()),
	})
	return guard.Wrap(pages.Handler(a.graphql)), nil
}

// corsAge is how long a browser need not ask again whether a page may.
const corsAge = 10 * time.Minute

func ofBazel(rest string) bool {
	return strings.HasPrefix(rest, "ac/") || strings.HasPrefix(rest, "cas/")
}
