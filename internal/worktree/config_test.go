package worktree

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestCredentialsStayBehind(t *testing.T) {
	dir := t.TempDir()
	text := `[core]
	repositoryformatversion = 0
	bare = false
	fsmonitor = /bin/SECRET
	sshCommand = ssh -i SECRET
	hooksPath = SECRET
[http]
	extraHeader = Authorization: SECRET
[http "https://example.com"]
	extraHeader = SECRET
[credential]
	helper = store --file SECRET
[remote "origin"]
	url = https://user:SECRET@example.com:8443/group/project.git
	pushurl = https://SECRET@example.com/group/project.git?private_token=SECRET
	fetch = +refs/heads/*:refs/remotes/origin/*
	proxy = http://SECRET@proxy
	uploadpack = SECRET
[remote "ssh"]
	url = ssh://git:SECRET@example.com/project.git
[remote "scp"]
	url = git@example.com:group/project.git
[remote "path"]
	url = ../other.git
[url "https://SECRET@example.com/"]
	insteadOf = x:
[branch "main"]
	remote = origin
	merge = refs/heads/main
[submodule "s"]
	url = https://u:SECRET@example.com/s.git
	update = !SECRET
[alias]
	st = !SECRET
[filter "x"]
	clean = SECRET
[filter "lfs"]
	clean = git-lfs clean -- %f
	smudge = SECRET
	process = git-lfs filter-process
	process = "git-lfs filter-process; SECRET"
	required = true
[include]
	path = SECRET
[user]
	signingKey = SECRET
`
	if err := os.WriteFile(filepath.Join(dir, "config"), []byte(text), 0o666); err != nil {
		t.Fatal(err)
	}
	r := &repository{dir: dir, common: dir}
	to := filepath.Join(t.TempDir(), "config")
	if err := r.writeConfig(to, filepath.FromSlash("/work/project")); err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile(to)
	if err != nil {
		t.Fatal(err)
	}
	want := `[core]
	bare = "false"
	trustctime = "false"
	checkstat = "minimal"
	repositoryformatversion = "0"
[remote "origin"]
	url = "https://example.com:8443/group/project.git"
	pushurl = "https://example.com/group/project.git"
	fetch = "+refs/heads/*:refs/remotes/origin/*"
[remote "ssh"]
	url = "ssh://git@example.com/project.git"
[remote "scp"]
	url = "git@example.com:group/project.git"
[remote "path"]
	url = "/work/other.git"
[branch "main"]
	remote = "origin"
	merge = "refs/heads/main"
[submodule "s"]
	url = "https://example.com/s.git"
[filter "lfs"]
	clean = "git-lfs clean -- %f"
	process = "git-lfs filter-process"
	required = "true"
`
	if diff := cmp.Diff(want, string(got)); diff != "" {
		t.Errorf("config (-want +got):\n%s", diff)
	}
}

// configs are texts that FuzzConfig and TestConfigIsReadAsGitDoes hold against git.
var configs = []string{
	"", "[core]\n\tbare\n", "[core] bare = true ; comment\n# other\n[a.B \"C\"]", "[Remote \"Or.igin\"]\nURL = x\n", "[remote.Origin]\nurl=y",
	"[a]\nb = \" x \" y  # c\n", "[a]\nb = one\\\n two\n", "[a]\nb = \"q\\\"\\n\\t\\\\\"\n", "\ufeff[a]\r\nb = c\r\n", "[a]\nb =\nc = x y\t \n",
	"[a \"x\\\"y\\\\z\"]\nk = v", "[a]\nb = \"\"\n", "[a]b=1\n[a]c=2;x\n", "[a]\nb = a;b\n", "[a]\nb = 'x'\n", "[a]\nb = x\\\n\n",
}

func TestConfigIsReadAsGitDoes(t *testing.T) {
	if _, err := exec.LookPath("git"); err != nil {
		t.Skip("needs git: it is not installed")
	}
	for _, text := range configs {
		t.Run(text, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "config")
			if err := os.WriteFile(file, []byte(text), 0o666); err != nil {
				t.Fatal(err)
			}
			out, gitErr := exec.Command("git", "config", "--null", "--list", "--file", file).Output()
			c, err := parseConfig(text)
			if (err == nil) != (gitErr == nil) {
				t.Fatalf("git: %v; we: %v", gitErr, err)
			}
			if err != nil {
				return
			}
			var got strings.Builder
			for _, s := range c.settings {
				got.WriteString(s.name())
				if !s.bare {
					got.WriteString("\n" + s.value)
				}
				got.WriteByte(0)
			}
			if diff := cmp.Diff(string(out), got.String()); diff != "" {
				t.Errorf("(-git +we):\n%s", diff)
			}
		})
	}
}

func FuzzConfig(f *testing.F) {
	for _, text := range configs {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		c, err := parseConfig(text)
		if err != nil {
			return
		}
		// What is written is read as the same.
		var out strings.Builder
		for _, s := range c.settings {
			if strings.ContainsAny(s.value+s.sub, "\x00\r") || !s.hasSub && strings.Contains(s.section, ".") {
				return
			}
			out.WriteString(s.header() + s.key + " = " + quote(s.value) + "\n")
		}
		again, err := parseConfig(out.String())
		if err != nil {
			t.Fatalf("%v in\n%s", err, out.String())
		}
		for i := range c.settings {
			if got, want := again.settings[i], c.settings[i]; got.name() != want.name() || got.value != want.value {
				t.Fatalf("%+v became %+v", want, got)
			}
		}
	})
}
