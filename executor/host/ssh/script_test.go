//go:build unix

package ssh

import (
	"bytes"
	"os/exec"
	"strings"
	"testing"

	"github.com/rungci/rung/executor/host"
)

// started runs the greeting as a server does, by a login shell, and returns what the command prints.
func started(t *testing.T, login []string, sh string, command *host.Command, input string) string {
	t.Helper()
	mark := newMark()
	text, err := body(mark, command)
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(login[0], append(login[1:], "-c", strings.Replace(greeting(mark, false), "/bin/sh", sh, 1))...)
	cmd.Stdin = strings.NewReader(text + input)
	cmd.Dir = t.TempDir()
	cmd.Env = []string{"PATH=/usr/local/bin:/usr/bin:/bin", "HOME=" + cmd.Dir, "TERM=dumb"}
	var errs bytes.Buffer
	cmd.Stderr = &errs
	out, err := cmd.Output()
	_, rest, found := strings.Cut(string(out), mark+" ok\n")
	if err != nil || !found {
		t.Fatalf("%v, %q, %s", err, out, errs.String())
	}
	return rest
}

// allBytes are all that a variable or an argument may hold.
func allBytes() string {
	var b strings.Builder
	for i := 1; i < 256; i++ {
		b.WriteByte(byte(i))
	}
	return b.String()
}

func TestEveryLoginShellStartsACommand(t *testing.T) {
	command := &host.Command{Args: []string{"sh", "-c", `printf '%s.' "$A" "$@"; cat`, "sh", "it's", "!x", "a\\\n", allBytes()}, Env: []string{"A=\n'" + allBytes()}}
	want := "\n'" + allBytes() + ".it's.!x.a\\\n." + allBytes() + ".input\n"
	tried := 0
	for _, login := range [][]string{{"sh"}, {"bash"}, {"dash"}, {"zsh"}, {"ksh"}, {"mksh"}, {"csh"}, {"tcsh"}, {"fish"}, {"busybox", "sh"}} {
		if _, err := exec.LookPath(login[0]); err != nil {
			continue // this machine's shells are enough; scripts/ci-setup.sh installs several
		}
		tried++
		t.Run(strings.Join(login, " "), func(t *testing.T) {
			if got := started(t, login, "/bin/sh", command, "input\n"); got != want {
				t.Errorf("got %q", got)
			}
		})
	}
	if tried == 0 {
		t.Error("there is no shell")
	}
}

func TestEveryPOSIXShellBecomesACommand(t *testing.T) {
	command := &host.Command{Args: []string{"sh", "-c", `printf '%s.' "$A" "$@"; cat`, "sh", "it's", allBytes()}, Env: []string{"A=\n'" + allBytes()}, Dir: "/"}
	for _, sh := range [][]string{{"sh"}, {"bash"}, {"dash"}, {"ksh"}, {"mksh"}, {"busybox", "sh"}} {
		path, err := exec.LookPath(sh[0])
		if err != nil {
			continue
		}
		sh[0] = path
		t.Run(strings.Join(sh, " "), func(t *testing.T) {
			if got, want := started(t, []string{"sh"}, strings.Join(sh, " "), command, "input\n"), "\n'"+allBytes()+".it's."+allBytes()+".input\n"; got != want {
				t.Errorf("got %q", got)
			}
		})
	}
}

func TestThePlatformIsWhatUnameReports(t *testing.T) {
	for text, want := range map[string]string{
		"Linux x86_64\n": "linux/amd64", "Linux aarch64\n": "linux/arm64", "Linux armv7l\n": "linux/arm", "Linux i686\n": "linux/386", "Darwin arm64\n": "darwin/arm64",
		"FreeBSD amd64\n": "freebsd/amd64", "Linux riscv64\n": "linux/riscv64", "Linux loongarch64\n": "linux/loong64",
	} {
		if got, err := ParsePlatform(text); err != nil || got.String() != want {
			t.Errorf("%q is %s, %v", text, got, err)
		}
	}
	for _, text := range []string{"", "Linux", "SunOS i86pc", "MINGW64_NT-10.0 x86_64", "'uname' is not recognized as a command"} {
		if got, err := ParsePlatform(text); err == nil {
			t.Errorf("%q is %s", text, got)
		}
	}
}

func TestNamesThatNoShellCanSetAreRefused(t *testing.T) {
	for _, name := range []string{"a.b", "1A", "a-b", "ü", "a b", "$(id)"} {
		if _, err := body("mark", &host.Command{Args: []string{"true"}, Env: []string{name + "=x"}}); err == nil || !strings.Contains(err.Error(), "letters, digits and underscores") {
			t.Errorf("%s: %v", name, err)
		}
	}
}
