// Package tenants runs the levee command over thirty tenants of a PostgreSQL server that it may kill, asks it as many clients do, and
// checks every answer: it is right for its tenant, or a 503 that says why and when to come back.
//
// It refuses to look inside the command, and to forgive an answer because of the load.
package tenants
