package credentials

import (
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
)

// needsShell skips a test whose helpers are shell scripts.
func needsShell(t *testing.T) {
	t.Helper()
	if _, err := exec.LookPath("sh"); err != nil || runtime.GOOS == "windows" {
		t.Skip("needs sh: the helpers of this test are shell scripts")
	}
}

// git returns what Git finds, as user:password.
func git(t *testing.T, f *Finder, url string) string {
	t.Helper()
	user, password, ok, err := f.Git(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	if !ok {
		return ""
	}
	return user + ":" + password
}

// answering is a helper that tells what it was asked as the password.
const answering = "#!/bin/sh\ntest \"$1\" = get || exit 1\necho username=me\nprintf password=; tr '\\n' ';'; echo\n"

func TestGitAsksCredentialHelpers(t *testing.T) {
	t.Parallel()
	needsShell(t)
	for _, tc := range []struct {
		name, config, url, want string
	}{
		{"a name", "[credential]\nhelper = mine\n", "https://h.example/p/q.git", "me:protocol=https;host=h.example;;"},
		{"a name with arguments", "[credential]\nhelper = args --one\n", "https://h.example/p", "args:--one get"},
		{"shell text", "[credential]\nhelper = \"!f() { echo username=u; echo password=p$1; }; f\"\n", "https://h.example/p", "u:pget"},
		{"the port is part of the host", "[credential]\nhelper = mine\n", "http://h.example:81/p", "me:protocol=http;host=h.example:81;;"},
		{"the path, where asked for", "[credential]\nhelper = mine\nuseHttpPath = true\n", "https://h.example/p/q.git", "me:protocol=https;host=h.example;path=p/q.git;;"},
		{"the user in the URL", "[credential]\nhelper = mine\n", "https://you@h.example/p", "me:protocol=https;host=h.example;username=you;;"},
		{"the user in the configuration", "[credential \"https://h.example\"]\nusername = you\n[credential]\nhelper = mine\n", "https://h.example/p", "me:protocol=https;host=h.example;username=you;;"},
		{"for one host", "[credential \"https://h.example\"]\nhelper = mine\n", "https://h.example/p", "me:protocol=https;host=h.example;;"},
		{"not for another host", "[credential \"https://x.example\"]\nhelper = mine\n", "https://h.example/p", ""},
		{"not for another scheme", "[credential \"https://h.example\"]\nhelper = mine\n", "http://h.example/p", ""},
		{"not for another port", "[credential \"https://h.example\"]\nhelper = mine\n", "https://h.example:444/p", ""},
		{"a wildcard is one label", "[credential \"https://*.example\"]\nhelper = mine\n", "https://h.example/p", "me:protocol=https;host=h.example;;"},
		{"a wildcard is not two", "[credential \"https://*.example\"]\nhelper = mine\n", "https://a.h.example/p", ""},
		{"for a folder", "[credential \"https://h.example/p\"]\nhelper = mine\n", "https://h.example/p/q", "me:protocol=https;host=h.example;;"},
		{"a folder is whole", "[credential \"https://h.example/p\"]\nhelper = mine\n", "https://h.example/pq", ""},
		{"an empty helper takes back", "[credential]\nhelper = other\n[credential \"https://h.example\"]\nhelper =\nhelper = mine\n", "https://h.example/p", "me:protocol=https;host=h.example;;"},
		{"the next when one knows nothing", "[credential]\nhelper = nothing\nhelper = mine\n", "https://h.example/p", "me:protocol=https;host=h.example;;"},
		{"the next when one fails", "[credential]\nhelper = no-such\nhelper = mine\n", "https://h.example/p", "me:protocol=https;host=h.example;;"},
		{"one that quits ends it", "[credential]\nhelper = quits\nhelper = mine\n", "https://h.example/p", ""},
		{"one that expired does not count", "[credential]\nhelper = expired\n", "https://h.example/p", ""},
		{"no helper", "", "https://h.example/p", ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			f := finder(t, map[string]string{
				".gitconfig":                 tc.config,
				"bin/git-credential-mine":    answering,
				"bin/git-credential-other":   "#!/bin/sh\necho username=other; echo password=other\n",
				"bin/git-credential-args":    "#!/bin/sh\necho username=args; echo password=\"$*\"\n",
				"bin/git-credential-quits":   "#!/bin/sh\necho quit=1\n",
				"bin/git-credential-nothing": "#!/bin/sh\nexit 0\n",
				"bin/git-credential-expired": "#!/bin/sh\necho username=u; echo password=p; echo password_expiry_utc=1\n",
			})
			if got := git(t, f, tc.url); got != tc.want {
				t.Errorf("got %q, want %q", got, tc.want)
			}
		})
	}
}

func TestGitConfigurationIsReadFromItsUsualPlaces(t *testing.T) {
	t.Parallel()
	needsShell(t)
	helper := func(name string) string {
		return "[credential]\nhelper =\nhelper = \"!echo username=" + name + "; echo password=p;:\"\n"
	}
	files := map[string]string{".gitconfig": helper("home"), "xdg/git/config": helper("xdg"), "global": helper("global"), "system": helper("system"),
		"including": "[include]\npath = ~/global\n", "relative": "[include]\npath = global\n", "round": "[include]\npath = round\n"}
	for _, tc := range []struct{ name, env, remove, want string }{
		{"~/.gitconfig is the last", "XDG_CONFIG_HOME=~/xdg", "", "home"},
		{"$XDG_CONFIG_HOME/git/config", "XDG_CONFIG_HOME=~/xdg", ".gitconfig", "xdg"},
		{"GIT_CONFIG_GLOBAL is instead of both", "GIT_CONFIG_GLOBAL=~/global", "", "global"},
		{"GIT_CONFIG_SYSTEM", "GIT_CONFIG_SYSTEM=~/system", ".gitconfig", "system"},
		{"an included file", "GIT_CONFIG_GLOBAL=~/including", "", "global"},
		{"an included file beside it", "GIT_CONFIG_GLOBAL=~/relative", "", "global"},
		{"variables come after files", "GIT_CONFIG_COUNT=1 GIT_CONFIG_KEY_0=credential.https://h.example.helper GIT_CONFIG_VALUE_0=var", ".gitconfig", "var"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			mine := map[string]string{"bin/git-credential-var": "#!/bin/sh\necho username=var; echo password=p\n"}
			for name, text := range files {
				if name != tc.remove {
					mine[name] = text
				}
			}
			f := finder(t, mine)
			f.Env = append(f.Env, strings.Fields(strings.ReplaceAll(tc.env, "~", f.Home))...)
			if got := git(t, f, "https://h.example/p"); got != tc.want+":p" {
				t.Errorf("got %q, want %q", got, tc.want+":p")
			}
		})
	}
	t.Run("a file that includes itself", func(t *testing.T) {
		t.Parallel()
		f := finder(t, files)
		f.Env = append(f.Env, "GIT_CONFIG_GLOBAL="+filepath.Join(f.Home, "round"))
		if _, _, ok, err := f.Git(t.Context(), "https://h.example/p"); ok || err == nil || !strings.Contains(err.Error(), "deep") {
			t.Errorf("got %v, %v", ok, err)
		}
	})
	t.Run("a file that is no configuration shows nothing of itself", func(t *testing.T) {
		t.Parallel()
		f := finder(t, map[string]string{".gitconfig": "s3cr3t = [\n"})
		if _, _, ok, err := f.Git(t.Context(), "https://h.example/p"); ok || err == nil || strings.Contains(err.Error(), "s3cr3t") {
			t.Errorf("got %v, %v", ok, err)
		}
	})
}

func TestGitAsksAnAskpassProgram(t *testing.T) {
	t.Parallel()
	needsShell(t)
	ask := "#!/bin/sh\ncase \"$1\" in User*) echo me;; *) echo \"$1\";; esac\n"
	for _, tc := range []struct{ name, env, config, url, want string }{
		{"GIT_ASKPASS", "GIT_ASKPASS=~/bin/ask SSH_ASKPASS=/no", "[core]\naskPass = /no\n", "https://h.example/p", "me:Password for 'https://me@h.example': "},
		{"core.askPass", "SSH_ASKPASS=/no", "[core]\naskPass = ~/bin/ask\n", "https://h.example/p", "me:Password for 'https://me@h.example': "},
		{"SSH_ASKPASS", "SSH_ASKPASS=~/bin/ask", "", "https://h.example/p", "me:Password for 'https://me@h.example': "},
		{"the user is known", "GIT_ASKPASS=~/bin/ask", "", "https://you@h.example:1/p", "you:Password for 'https://you@h.example:1': "},
		{"netrc comes first", "GIT_ASKPASS=~/bin/ask", "", "https://n.example/p", "n:n"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			f := finder(t, map[string]string{".gitconfig": tc.config, "bin/ask": ask, ".netrc": "machine n.example login n password n"})
			f.Env = append(f.Env, strings.Fields(strings.ReplaceAll(tc.env, "~", f.Home))...)
			if got := git(t, f, tc.url); got != tc.want {
				t.Errorf("got %q, want %q", got, tc.want)
			}
		})
	}
}

func TestAHelperThatFailsIsNamedAndNotQuoted(t *testing.T) {
	t.Parallel()
	needsShell(t)
	f := finder(t, map[string]string{".gitconfig": "[credential]\nhelper = bad --token=s3cr3t\n", "bin/git-credential-bad": "#!/bin/sh\necho s3cr3t; echo s3cr3t >&2; exit 3\n"})
	_, _, ok, err := f.Git(t.Context(), "https://u@h.example/p")
	if ok || err == nil || !strings.Contains(err.Error(), `"bad"`) || strings.Contains(err.Error(), "s3cr3t") {
		t.Errorf("got %v, %v", ok, err)
	}
}

func TestAHelperThatWritesWithoutEndIsCutOff(t *testing.T) {
	t.Parallel()
	needsShell(t)
	f := finder(t, map[string]string{".gitconfig": "[credential]\nhelper = \"!head -c 1000000 /dev/zero;:\"\n"})
	if _, _, ok, err := f.Git(t.Context(), "https://h.example/p"); ok || err == nil || !strings.Contains(err.Error(), "more than") {
		t.Errorf("got %v, %v", ok, err)
	}
}

func TestAHelperHasNoTerminalAndIsToldSo(t *testing.T) {
	t.Parallel()
	needsShell(t)
	f := finder(t, map[string]string{".gitconfig": "[credential]\nhelper = \"!echo username=u; echo password=$GIT_TERMINAL_PROMPT$(cat /dev/tty 2>&1 | wc -l | tr -d ' ');:\"\n"})
	if got := git(t, f, "https://h.example/p"); got != "u:01" && got != "u:00" {
		t.Errorf("got %q", got)
	}
}

func TestAURLThatWouldSmuggleALineIsRefused(t *testing.T) {
	t.Parallel()
	for _, url := range []string{"https://h.example/a%0ahost=x", "https://u%0ax@h.example/", "", "file:///x", ":"} {
		if _, _, ok, err := finder(t, nil).Git(t.Context(), url); ok || err == nil {
			t.Errorf("%q: %v, %v", url, ok, err)
		}
	}
}

func TestRealGitAnswersForItsOwnHelpers(t *testing.T) {
	t.Parallel()
	if _, err := exec.LookPath("git"); err != nil {
		t.Skip("needs git: its store helper is asked")
	}
	f := finder(t, map[string]string{".gitconfig": "[credential]\nhelper = store\n", ".git-credentials": "https://me:p%40w@h.example\n"})
	if got := git(t, f, "https://h.example/p"); got != "me:p@w" {
		t.Errorf("got %q", got)
	}
}
