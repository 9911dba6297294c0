package main

import "github.com/rogpeppe/go-internal/testscript"

// send is for systems with signals.
func send(ts *testscript.TestScript, _ bool, _ []string) { ts.Fatalf("there are no signals here") }
