package federation

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rungci/rung/steps/diag"
)

func TestEveryMistakeHasItsPlace(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name, text string
		project    bool
		want       []string // place and a part of the message, in order
	}{
		{name: "not TOML", text: "[[source]]\nmatch = gitlab.com\n", want: []string{"2:9: this is not valid TOML"}},
		{name: "the same key twice", text: "[[source]]\nmatch = \"a\"\nmatch = \"b\"\n", want: []string{"3:1: this is not valid TOML"}},
		{name: "an unknown key", text: "[[source]]\nmatch = \"a\"\nreplcae = \"b\"\n", want: []string{`3:1: the key "replcae" is not known here`}},
		{name: "a dotted key", text: "[[source]]\nmatch = \"a\"\nsource.x = 1\n", want: []string{`3:1: the key "source.x" is not known here`}},
		{name: "one bracket", text: "[source]\nmatch = \"a\"\n", want: []string{"1:2: [source] is not known here"}},
		{name: "an unknown table", text: "[[sources]]\nmatch = \"a\"\n", want: []string{"1:3: [[sources]] is not known here"}},
		{name: "a key at the top", text: "match = \"a\"\n", want: []string{`1:1: "match" is before the first [[source]]`}},
		{name: "wrong types, all at once", text: "[[source]]\nmatch = 1\ndeny = \"yes\"\nthreshold = \"1\"\nrefresh = 10\nsigned_by = \"a\"\n", want: []string{
			"2:9: match takes a text", "3:8: deny takes true or false", "4:13: threshold takes a whole number", "5:11: refresh takes a time", "6:13: signed_by takes a list"}},
		{name: "a list of other things", text: "[[source]]\nmatch = \"a\"\nsigned_by = [1]\n", want: []string{"3:1: signed_by takes a list"}},
		{name: "empty texts", text: "[[source]]\nmatch = \"\"\n", want: []string{"2:9: match is empty"}},
		{name: "a time that is none", text: "[[source]]\nmatch = \"a\"\nrefresh = \"soon\"\n", want: []string{"3:11: refresh takes a time"}},
		{name: "a threshold of nothing", text: "[[source]]\nmatch = \"a\"\nsigned_by = [\"k\"]\nthreshold = 0\n", want: []string{"4:13: threshold takes a whole number"}},
		{name: "a threshold of too many", text: "[[source]]\nmatch = \"a\"\nsigned_by = [\"k\"]\nthreshold = 2\n", want: []string{"4:13: 2 signatures are demanded, and signed_by has 1 keys"}},
		{name: "no match", text: "[[source]]\ndeny = true\n", want: []string{"1:3: the entry has no match"}},
		{name: "a match with a scheme", text: "[[source]]\nmatch = \"https://a.example\"\n", want: []string{"2:9: a match has no scheme"}},
		{name: "a match with a user", text: "[[source]]\nmatch = \"git@a.example\"\n", want: []string{"2:9: a match is a host"}},
		{name: "a match that climbs", text: "[[source]]\nmatch = \"a.example/../b\"\n", want: []string{"2:9: its path has an element"}},
		{name: "a * inside", text: "[[source]]\nmatch = \"a.*.example\"\n", want: []string{"2:9: a * stands for the beginning"}},
		{name: "two entries for one match", text: "[[source]]\nmatch = \"a.example\"\n[[source]]\nmatch = \"A.example/\"\n", want: []string{"4:9: the match a.example/ already exists, on line 1"}},
		{name: "a replace with a password", text: "[[source]]\nmatch = \"a\"\nreplace = \"https://u:s3cr3t@b.example\"\n", want: []string{"3:11: it has credentials in it"}},
		{name: "a replace with another scheme", text: "[[source]]\nmatch = \"a\"\nreplace = \"ext::sh -c id\"\n[[source]]\nmatch = \"b\"\nreplace = \"ftp://b\"\n", want: []string{
			"3:11: it is not a valid URL", "6:11: the scheme ftp:// cannot be used here"}},
		{name: "a replace of nothing", text: "[[source]]\nmatch = \"a\"\nreplace = \"https:///x\"\n", want: []string{"3:11: it names no host"}},
		{name: "credentials for a place that is never asked", text: "[[source]]\nmatch = \"a\"\nreplace = \"https://b\"\nusername = \"u\"\npassword_env = \"P\"\n", want: []string{
			"4:12: username is for the place that is asked", "5:16: password_env is for the place"}},
		{name: "two passwords", text: "[[source]]\nmatch = \"a\"\npassword_env = \"P\"\ntoken_env = \"T\"\n", want: []string{"4:13: password_env and token_env both"}},
		{name: "a user without a password", text: "[[source]]\nmatch = \"a\"\nusername = \"u\"\n", want: []string{"3:12: the user name has no password"}},
		{name: "half a client certificate", text: "[[source]]\nmatch = \"a\"\nclient_cert = \"c\"\n", want: []string{"3:15: client_cert and client_key belong together"}},
		{name: "a proxy that is none", text: "[[source]]\nmatch = \"a\"\nproxy = \"proxy:3128\"\n", want: []string{"3:9: the proxy is not a URL"}},
		{name: "a reason for nothing", text: "[[source]]\nmatch = \"a\"\nreason = \"r\"\n", want: []string{"3:10: reason says why deny is true"}},
		{name: "columns are characters", text: "[[source]]\nmatch = \"ä\"; x\n", want: []string{"2:12: this is not valid TOML"}},
		{name: "secrets, keys and proxies in a project's file", project: true, text: "[[source]]\nmatch = \"a\"\nusername = \"u\"\npassword_env = \"P\"\nssh_key = \"k\"\nca_file = \"c\"\nproxy = \"http://p:1\"\nplain_http = true\n", want: []string{
			"3:12: a project's file cannot set username", "4:16: a project's file cannot set password_env", "5:11: a project's file cannot set ssh_key",
			"6:11: a project's file cannot set ca_file", "7:9: a project's file cannot set proxy", "8:14: a project's file cannot set plain_http"}},
		{name: "plain HTTP in a project's file", project: true, text: "[[source]]\nmatch = \"a\"\nreplace = \"http://b.example/\"\n", want: []string{"3:11: a project's file cannot make"}},
		{name: "plain HTTP on this machine in a project's file", project: true, text: "[[source]]\nmatch = \"a\"\nreplace = \"http://127.0.0.1:8080/\"\n[[source]]\nmatch = \"b\"\nreplace = \"http://[::1]:80/\"\n[[source]]\nmatch = \"c\"\nreplace = \"http://localhost/\"\n"},
		{name: "demands in a project's file", project: true, text: "[[source]]\nmatch = \"a\"\ndeny = true\nreason = \"old\"\n[[source]]\nmatch = \"b\"\npinned = true\nsigned_by = [\"k\"]\n"},
		{name: "an empty file", text: ""},
		{name: "comments", text: "# nothing\n"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			_, err := parse("sources.toml", []byte(tc.text), tc.project)
			list := diag.Of(err)
			if len(list) != len(tc.want) {
				t.Fatalf("got %d problems, want %d:\n%v", len(list), len(tc.want), err)
			}
			for i, d := range list {
				if !strings.HasPrefix(d.Error(), "sources.toml:"+tc.want[i]) {
					t.Errorf("got %q, want %q", d.Error(), tc.want[i])
				}
			}
			if strings.Contains(list.Render(), "s3cr3t") {
				t.Errorf("a password is shown:\n%s", list.Render())
			}
		})
	}
}

func TestAMistakeIsShownWithItsLineAndWhatToDo(t *testing.T) {
	t.Parallel()
	_, err := parse("sources.toml", []byte("[[source]]\nmatch = \"gitlab.com/\"\nreplcae = \"https://m.example/\"\n"), false)
	want := `error: the key "replcae" is not known here
  --> sources.toml:3:1
   |
 3 | replcae = "https://m.example/"
   | ^^^^^^^
hint: did you mean "replace"?
`
	if got := diag.Of(err).Render(); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

func TestBothFilesAreCheckedBeforeAnythingElse(t *testing.T) {
	t.Parallel()
	_, err := Load(newWorld(t, "x = 1\n", "y = 1\n").opts)
	if list := diag.Of(err); len(list) != 2 {
		t.Errorf("got %v", err)
	}
}

func FuzzParse(f *testing.F) {
	f.Add("[[source]]\nmatch = \"gitlab.com/\"\nreplace = \"file:///srv/\"\nsigned_by = [\"a\", \"b\"]\nthreshold = 2\n", true)
	f.Add("[[source]]\nmatch = \"*.a\"\nrefresh = \"1m\"\ndeny = true\n[x]\n", false)
	f.Add("source = [{match = \"a\"}]\n[[source.x]]\n\"a\\u0000\".b = 1", false)
	f.Fuzz(func(t *testing.T, text string, project bool) {
		parsed, err := parse("sources.toml", []byte(text), project)
		list := diag.Of(err)
		if err != nil && list == nil {
			t.Fatalf("an error without a place: %v", err)
		}
		_ = list.Render()
		if err == nil {
			for _, e := range parsed.entries {
				if _, err := parsePattern(e.match); err != nil {
					t.Errorf("the match %q was accepted: %v", e.match, err)
				}
			}
		}
	})
}

func FuzzPlace(f *testing.F) {
	f.Add("https://u:p@GitLab.com:443/a/%2e/b.git?x#y")
	f.Add("git@host:a/b")
	f.Add("file:///C:/x")
	f.Fuzz(func(t *testing.T, text string) {
		p, err := parsePlace(text)
		if err != nil {
			return
		}
		for _, e := range p.elements {
			if e == "" || e == "." || e == ".." || strings.ContainsAny(e, "/\x00") {
				t.Errorf("%q has the element %q", text, e)
			}
		}
	})
}

func TestTheExampleInTheDocumentationIsRead(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile(filepath.Join("..", "..", "..", "docs", "sources.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(strings.ReplaceAll(string(text), "\r\n", "\n"), "```toml\n[[source]]")
	example, _, ok := strings.Cut(rest, "```")
	if !ok {
		t.Fatal("docs/sources.md has no example of a file of sources")
	}
	f, err := parse("sources.toml", []byte("[[source]]"+example), false)
	if err != nil || len(f.entries) != 4 {
		t.Errorf("got %v", err)
	}
	for _, key := range keys {
		if !strings.Contains(string(text), "`"+key+"`") {
			t.Errorf("docs/sources.md does not tell of %s", key)
		}
		if (&entry{}).field(key) == nil {
			t.Errorf("the key %s has no field", key)
		}
	}
}
