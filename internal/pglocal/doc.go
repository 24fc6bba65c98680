// Package pglocal runs a private PostgreSQL server with the programs that are installed on this machine: for tests, and for
// trying the GraphQL service without a database of one's own.
//
// It refuses to install anything, to touch a server that it did not start, and to be reached from elsewhere: the server
// listens on 127.0.0.1 and trusts whoever connects. Its data live in one directory, which is the caller's to remove.
package pglocal
