package main

import (
	"archive/zip"
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"os"
	"strconv"

	"github.com/rogpeppe/go-internal/testscript"
)

// web asks the manager whose `rung status --format json` was printed last, and puts the answer into the file got: web PATH STATUS. The path
// "page" is the page with its key.
func web(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: web PATH STATUS")
	}
	var status struct{ Page string }
	if text, err := os.ReadFile(ts.MkAbs("status.json")); err != nil {
		ts.Fatalf("print `rung status --format json` to status.json first: %v", err)
	} else {
		ts.Check(json.Unmarshal(text, &status))
	}
	at, err := url.Parse(status.Page)
	ts.Check(err)
	if args[0] != "page" {
		at.Path, at.RawQuery = "/"+args[0], ""
	}
	jar, _ := cookiejar.New(nil)
	answer, err := (&http.Client{Jar: jar}).Get(at.String())
	ts.Check(err)
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	ts.Check(err)
	ts.Check(os.WriteFile(ts.MkAbs("got"), text, 0o600))
	if strconv.Itoa(answer.StatusCode) != args[1] {
		ts.Fatalf("%s: %s\n%s", at.Path, answer.Status, text)
	}
}

// unpack writes the files of a zip archive.
func unpack(ts *testscript.TestScript, archive []byte) {
	r, err := zip.NewReader(bytes.NewReader(archive), int64(len(archive)))
	ts.Check(err)
	for _, f := range r.File {
		in, err := f.Open()
		ts.Check(err)
		text, err := io.ReadAll(in)
		ts.Check(err)
		ts.Check(os.WriteFile(ts.MkAbs(f.Name), text, 0o600))
	}
}
