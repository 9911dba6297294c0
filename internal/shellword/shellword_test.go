package shellword

import (
	"os/exec"
	"testing"
)

func TestWords(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"/a/b-c_1.json":         "/a/b-c_1.json",
		"/dir/über":             "/dir/über",
		"/odd dir: ü$x/a.json":  "'/odd dir: ü$x/a.json'",
		"it's":                  `'it'\''s'`,
		"":                      "''",
		"~/a":                   "'~/a'",
		"a\nb":                  "'a\nb'",
		"!":                     "'!'",
		"=a":                    "'=a'",
		`back\slash`:            `'back\slash'`,
		"oci://host:5000/a@b:v": "oci://host:5000/a@b:v",
	} {
		if got := of(text, false); got != want {
			t.Errorf("%q is %s, not %s", text, got, want)
		}
		if sh, err := exec.LookPath("sh"); err == nil {
			if got, err := exec.CommandContext(t.Context(), sh, "-c", "printf %s "+of(text, false)).Output(); err != nil || string(got) != text {
				t.Errorf("a shell reads %q as %q, %v", text, got, err)
			}
		}
	}
	for text, want := range map[string]string{`C:\a\b.json`: `C:\a\b.json`, `C:\odd dir\a.json`: `"C:\odd dir\a.json"`, `C:\odd dir\`: `"C:\odd dir\\"`, "a,b": `"a,b"`} {
		if got := of(text, true); got != want {
			t.Errorf("on Windows, %q is %s, not %s", text, got, want)
		}
	}
}
