package storm

import (
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"
)

// databaseOnLoopback refuses a database that is not certainly on this machine. It looks at what the driver makes of the URL,
// which may name hosts in several ways; the text is not shown, since it may hold a password.
func databaseOnLoopback(text string, remote bool) error {
	c, err := pgx.ParseConfig(text)
	if err != nil {
		return errors.New("database-url is not postgres://USER@HOST:PORT/DATABASE")
	}
	if remote {
		return nil
	}
	hosts := []string{c.Host}
	for _, f := range c.Fallbacks {
		hosts = append(hosts, f.Host)
	}
	for _, host := range hosts {
		if !isLoopbackHost(host) {
			return fmt.Errorf("database-url is of host %q, which is not a loopback address: give 127.0.0.1", host)
		}
	}
	return nil
}
