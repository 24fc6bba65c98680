// Package e2e tests the levee command with real clients: Bazel, ccache, grpc-go.
//
// It refuses to look inside: its tests know the command line, the protocols and the admin listener, as an operator does.
// They run processes and talk over loopback, wait for conditions instead of sleeping, and leave nothing behind.
package e2e
