package serve

import (
	"net/http"
	"strings"

	"github.com/leveehq/levee/internal/git"
	"github.com/leveehq/levee/internal/graphql"
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
func (a *App) route() http.Handler {
	toGit, toGraphQL := http.Handler(http.HandlerFunc(gitIsOff)), http.Handler(http.HandlerFunc(graphqlIsOff))
	if a.git != nil {
		toGit = a.git
	}
	if a.graphql != nil {
		toGraphQL = a.graphql
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		path := r.URL.EscapedPath()
		if rest, ok := strings.CutPrefix(path, git.Prefix); ok && !ofBazel(rest) {
			toGit.ServeHTTP(w, r)
			return
		}
		if rest, ok := strings.CutPrefix(path, graphql.Prefix+"/"); path == graphql.Prefix || ok && !ofBazel(rest) {
			toGraphQL.ServeHTTP(w, r)
			return
		}
		a.cache.ServeHTTP(w, r)
	})
}

func ofBazel(rest string) bool {
	return strings.HasPrefix(rest, "ac/") || strings.HasPrefix(rest, "cas/")
}
