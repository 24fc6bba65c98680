// Package storm offers load to a server and reports what the server made of it.
//
// It refuses to talk to anything but the loopback interface (a GraphQL storm may be told to), to run without a bound in
// time and in count, and to import any server package: it knows a server only by its protocols and by what its admin
// listener publishes.
//
// A scenario is one kind of client, honest or hostile. Running one yields a Section of the Report: what was offered,
// what was admitted, what was shed (by reason and code), how long it took, and what the server's memory did
// meanwhile. A Section also lists the promises that were broken, which decide the exit status.
package storm
