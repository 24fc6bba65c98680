package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
)

// adminFlag is where commands ask that look after a running server.
type adminFlag struct {
	Admin string `help:"Admin address of the server." default:"127.0.0.1:9090" placeholder:"HOST:PORT"`
}

// ask makes one request. It has no time-out but the caller's signal: a first clone or a build takes as long as it takes. off
// completes "the server at … has" where the server does not know the path, because the service that it belongs to is off.
func (c *adminFlag) ask(ctx context.Context, method, path string, query url.Values, off string) ([]byte, error) {
	u := url.URL{Scheme: "http", Host: c.Admin, Path: path, RawQuery: query.Encode()}
	req, err := http.NewRequestWithContext(ctx, method, u.String(), nil)
	if err != nil {
		return nil, usageError{fmt.Errorf("admin %q is not HOST:PORT", c.Admin)}
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return nil, fmt.Errorf("the admin listener does not answer (give another --admin): %w", err)
	}
	defer resp.Body.Close()
	const most = 64 << 20 // the definition of a schema of 10,000 tables has about half of it
	body, err := io.ReadAll(io.LimitReader(resp.Body, most))
	if err != nil {
		return nil, err
	}
	said := strings.TrimSpace(string(body))
	switch {
	case resp.StatusCode == http.StatusNotFound && said == "404 page not found": // net/http's own: nobody has these paths
		return nil, fmt.Errorf("the server at %s has %s", c.Admin, off)
	case resp.StatusCode/100 != 2:
		return nil, fmt.Errorf("%s: %s", resp.Status, said)
	}
	return body, nil
}
