// Command httpbackend serves a directory of repositories with git http-backend alone, as teams do that have no cache: what
// Levee is compared with. It prints its address and serves until it is killed.
package main

import (
	"fmt"
	"net"
	"net/http"
	"net/http/cgi"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "httpbackend:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	if len(args) != 2 {
		return fmt.Errorf("usage: httpbackend ROOT CONFIG")
	}
	core, err := exec.Command("git", "--exec-path").Output()
	if err != nil {
		return err
	}
	config := args[1]
	if config == "" {
		config = os.DevNull
	}
	env := []string{"GIT_PROJECT_ROOT=" + args[0], "GIT_HTTP_EXPORT_ALL=1", "GIT_CONFIG_NOSYSTEM=1", "GIT_CONFIG_GLOBAL=" + config}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	fmt.Println(l.Addr())
	return http.Serve(l, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := cgi.Handler{Path: filepath.Join(strings.TrimSpace(string(core)), "git-http-backend"), Root: "/", Env: env}
		if v := r.Header.Get("Git-Protocol"); v != "" {
			h.Env = append(h.Env[:len(h.Env):len(h.Env)], "GIT_PROTOCOL="+v)
		}
		h.ServeHTTP(w, r)
	}))
}
