package engine

import (
	"encoding/base64"
	"fmt"
	"net/http"
	"strings"
	"testing"
)

func TestPullingAnImageTellsItsProgress(t *testing.T) {
	client := fake(t, exchange{
		ask: "POST /v1.41/images/create?fromImage=host%3A5000%2Fa&platform=linux%2Farm64&tag=1 ",
		answer: `{"status":"Pulling from a","id":"1"}` + "\r\n\r\n" +
			`{"status":"Downloading","progressDetail":{"current":10,"total":20},"progress":"[=>","id":"abc"}` + "\r\n",
	})
	var told []string
	err := client.Images.Pull(t.Context(), "host:5000/a:1", "linux/arm64", Auth{}, func(p Progress) {
		told = append(told, fmt.Sprint(p.ID, " ", p.Status, " ", p.ProgressDetail.Current, "/", p.ProgressDetail.Total))
	})
	if want := "1 Pulling from a 0/0;abc Downloading 10/20"; err != nil || strings.Join(told, ";") != want {
		t.Errorf("%q %v", told, err)
	}
}

func TestAPullThatFailsOnTheWayIsAnError(t *testing.T) {
	for name, c := range map[string]struct {
		answer string
		want   Error
	}{
		"as engines say it":       {`{"errorDetail":{"code":401,"message":"denied"},"error":"denied"}`, Error{401, "denied"}},
		"as old engines say it":   {`{"error":"no space left"}`, Error{0, "no space left"}},
		"as the newest ones do":   {`{"errorDetail":{"message":"manifest unknown"}}`, Error{0, "manifest unknown"}},
		"after what went well":    {"{\"status\":\"Waiting\"}\n{\"error\":\"broken\"}\n{\"status\":\"never read\"}", Error{0, "broken"}},
		"in words that are wrong": {"<html>", Error{}},
		"in a line without end":   {`{"status":"` + strings.Repeat("x", maxProgress), Error{}},
	} {
		t.Run(name, func(t *testing.T) {
			err := readProgress(strings.NewReader(c.answer), func(p Progress) {
				if p.Status == "never read" {
					t.Error("it goes on")
				}
			})
			refused, _ := err.(*Error)
			if err == nil || (refused == nil) != (c.want == Error{}) || refused != nil && *refused != c.want {
				t.Errorf("%#v", err)
			}
		})
	}
}

func TestARegistryIsShownWhoAsks(t *testing.T) {
	for want, auth := range map[string]Auth{
		"": {},
		`{"serveraddress":"r","username":"ann","password":"ß???"}`: {Registry: "r", Username: "ann", Password: "ß???"},
		`{"serveraddress":"r","identitytoken":"t"}`:                {Registry: "r", Token: "t"},
	} {
		var shown string
		client := serve(t, func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Api-Version", "1.41")
			shown = r.Header.Get("X-Registry-Auth")
		})
		err := client.Images.Pull(t.Context(), "r/a", "", auth, func(Progress) {})
		if text, _ := base64.URLEncoding.DecodeString(shown); err != nil || string(text) != want {
			t.Errorf("%q is %q, not %q: %v", shown, text, want, err)
		}
	}
}

func TestOneTagIsPulled(t *testing.T) {
	for name, want := range map[string]string{
		"alpine":                        "alpine latest",
		"alpine:3":                      "alpine 3",
		"host:5000/a":                   "host:5000/a latest",
		"host:5000/a/b:c":               "host:5000/a/b c",
		"a@sha256:1":                    "a sha256:1",
		"host:5000/a:tag@sha256:abcdef": "host:5000/a sha256:abcdef",
		"a:":                            "a latest",
	} {
		repository, tag := splitTag(name)
		if got := repository + " " + tag; got != want {
			t.Errorf("%s: %q, not %q", name, got, want)
		}
	}
}
