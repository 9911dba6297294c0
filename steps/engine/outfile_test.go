package engine

import (
	"strings"
	"testing"

	"github.com/rungci/rung/steps/value"
)

func FuzzReadEntries(f *testing.F) {
	for _, seed := range []string{
		"", "\n\n", `{"name":"a","value":1}`, "{\"name\":\"a\",\"value\":1}\n{\"name\":\"a\",\"value\":2}\n", `key="v"`, "::set-output name=a::b",
		`{"name":"","value":1}`, `{"name":null}`, `{"value":{}}`, "\xff\xfe", `{"name":"a","value":18446744073709551616}`, `{"name":"\ud800","value":"\u0000"}`,
		"  {\"name\" : \"ä ö\", \"value\":[1,{\"b\":null}], \"more\": true}  \r\n", strings.Repeat(`{"name":"x","value":[`, 300),
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		entries, err := readEntries(strings.NewReader(string(data)))
		if err != nil {
			if !strings.Contains(err.Error(), "line ") {
				t.Fatalf("the error %q names no line", err)
			}
			return
		}
		// What was read can be written and read again.
		var lines strings.Builder
		for name, v := range entries {
			if name == "" || v.IsNull() {
				t.Fatalf("%q: the entry %q is %s", data, name, v.Text())
			}
			line := value.OfStruct(map[string]value.Value{"name": value.OfString(name), "value": v})
			lines.Write(append(line.AppendJSON(nil), '\n'))
		}
		again, err := readEntries(strings.NewReader(lines.String()))
		if err != nil || len(again) != len(entries) {
			t.Fatalf("%q was read as %v, and again as %v (%v)", data, entries, again, err)
		}
		for name, v := range entries {
			if !value.Equal(v, again[name]) {
				t.Fatalf("%q: %s became %s", name, v.Text(), again[name].Text())
			}
		}
	})
}

func TestTheTextOfAShellIsFound(t *testing.T) {
	t.Parallel()
	for command, want := range map[string]bool{
		"bash -c":                       true,
		"/bin/sh -ec":                   true,
		"bash -euo pipefail -c":         true,
		"bash --norc --noprofile -e -c": true,
		"env sh -c":                     true,
		"/usr/bin/env -i A=b bash -c":   true,
		"bash -c text":                  false,
		"bash script.sh -c":             false,
		"bash":                          false,
		"bash --norc":                   false,
		"python3 -c":                    false,
		"env":                           false,
		"env A=b":                       false,
		"echo bash -c":                  false,
	} {
		args := strings.Fields(command)
		if got := shellTextIndex(args) == len(args); got != want {
			t.Errorf("after %q shell text follows: %t, want %t", command, got, want)
		}
	}
}
