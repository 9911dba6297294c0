package ssh

import (
	"crypto/rand"
	"errors"
	"fmt"
	"strings"

	"github.com/rungci/rung/executor/host"
)

// A command starts in three parts. The server runs the greeting, which is the same for all: it prints a mark and its process ID,
// reads one line and evaluates it. That line, the body, sets the environment, checks that the command can start, prints the mark
// and "ok", and becomes the command. If it cannot, the shell's last act is to print the mark and "failed".
//
// The mark is random. What comes before it (a login shell's start files may print) is not the command's output.

// newMark returns a mark that nobody can guess.
func newMark() string { return "@rung-" + rand.Text() }

// greeting is the command line for the user's login shell. Within its single quotes there is nothing that any shell interprets:
// no quote, backslash, exclamation mark or end of line.
func greeting(mark string, terminal bool) string {
	const read = "IFS= read -r __rung_s&&eval \"$__rung_s\""
	if terminal { // the line is longer than a terminal takes, and must not be echoed
		return "exec /bin/sh -c '__rung_t=$(stty -g)&&stty raw -echo&&echo " + mark + " $$&&" + read + "'"
	}
	return "exec /bin/sh -c 'echo " + mark + " $$;" + read + "'"
}

// body is the line that the greeting reads.
func body(mark string, command *host.Command) (string, error) {
	if command.Group != "" {
		return "", errors.New("a command cannot be started straight into a control group over SSH")
	}
	var b strings.Builder
	b.WriteString(`unset __rung_s;__rung_n=$(printf "\nx");__rung_n=${__rung_n%x};`)
	if command.Terminal != nil {
		b.WriteString(`stty "$__rung_t";`)
	}
	for _, pair := range command.Env {
		name, value, _ := strings.Cut(pair, "=")
		if !isName(name) {
			return "", fmt.Errorf("the environment variable %q cannot be set over SSH; use letters, digits and underscores", name)
		}
		b.WriteString("export " + name + "=" + quote(value) + ";")
	}
	refuse := func(test, why string) {
		fmt.Fprintf(&b, "%s || { echo %s %s;exit;};", test, mark, why)
	}
	if command.Dir != "" {
		dir := quote(command.Dir)
		refuse("test -e "+dir, "nodir")
		refuse("cd "+dir+" 2>/dev/null", "baddir")
	}
	program := quote(command.Args[0])
	if strings.Contains(command.Args[0], "/") {
		refuse("test -e "+program, "missing")
		refuse("test -f "+program, "folder")
		refuse("test -x "+program, "noexec")
	} else {
		refuse("command -v "+program+" >/dev/null 2>&1", "unknown")
	}
	fmt.Fprintf(&b, "trap 'echo %s failed' EXIT;echo %s >&2;echo %s ok;exec", mark, mark, mark)
	for _, arg := range command.Args {
		b.WriteString(" " + quote(arg))
	}
	b.WriteString("\n")
	return b.String(), nil
}

// quote makes one word of text for a POSIX shell, in one line.
func quote(text string) string {
	return "'" + strings.NewReplacer("'", `'\''`, "\n", `'"$__rung_n"'`).Replace(text) + "'"
}

// isName reports whether a POSIX shell can set a variable of the name.
func isName(name string) bool {
	for i, r := range name {
		if r != '_' && (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9' || i == 0) {
			return false
		}
	}
	return name != ""
}
