// Package nightly holds the tests that take too long for every change: scripts/test --nightly runs them.
//
// It refuses to skip: what is here runs whenever it is called, and no other run calls it.
package nightly
