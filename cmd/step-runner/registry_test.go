package main

import (
	"context"
	"io"
	"os"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/rungci/rung/steps/source"
	"github.com/rungci/rung/steps/source/cache"
	"github.com/rungci/rung/steps/source/oci"
	"github.com/rungci/rung/steps/source/sourcetest"
	"github.com/rungci/rung/steps/source/tree"
)

// registry starts a container registry for a script, whose address is then in $REGISTRY: registry [USER PASSWORD].
func registry(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 0 && len(args) != 2 {
		ts.Fatalf("usage: registry [USER PASSWORD]")
	}
	r := sourcetest.NewRegistry(false)
	ts.Defer(r.Close)
	if len(args) == 2 {
		r.Protect(sourcetest.Token, args[0], args[1])
	}
	ts.Setenv("REGISTRY", r.Host())
}

// pull fetches an image and checks its content digest against that of a folder: pull REPOSITORY TAG FOLDER.
func pull(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 3 {
		ts.Fatalf("usage: pull REPOSITORY TAG FOLDER")
	}
	want, err := tree.Digest(ts.MkAbs(args[2]))
	ts.Check(err)
	temp, err := os.MkdirTemp("", "step-runner-")
	ts.Check(err)
	defer os.RemoveAll(temp)
	f := &oci.Fetcher{Cache: cache.New(temp)}
	url := ts.Getenv("REGISTRY") + "/" + args[0]
	at := &source.Location{Name: "oci://" + url, URL: url, Rev: args[1]}
	pin, err := f.Resolve(context.Background(), at)
	ts.Check(err)
	w := tree.NewWriter(io.Discard)
	ts.Check(f.Fetch(context.Background(), at, pin, w))
	got, err := w.Close()
	ts.Check(err)
	if got != want {
		ts.Fatalf("%s:%s has the content %s, want %s", args[0], args[1], got, want)
	}
}
