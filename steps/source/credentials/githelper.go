package credentials

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"time"
)

// askHelpers asks one helper after the other until a user name and a password are there. Err says which could not be asked.
func (f *Finder) askHelpers(ctx context.Context, helpers []string, q question) (user, password string, ok bool, err error) {
	var failed []error
	for _, helper := range helpers {
		answer, err := f.askHelper(ctx, helper, q)
		if err != nil {
			failed = append(failed, err)
			if ctx.Err() != nil {
				break
			}
			continue
		}
		if answer["username"] != "" {
			q.username = answer["username"]
		}
		if password := answer["password"]; password != "" && q.username != "" && !expired(answer["password_expiry_utc"]) {
			return q.username, password, true, nil
		}
		if quit := answer["quit"]; quit == "1" || quit == "true" {
			break
		}
	}
	return "", "", false, errors.Join(failed...)
}

func expired(when string) bool {
	seconds, err := strconv.ParseInt(when, 10, 64)
	return err == nil && time.Unix(seconds, 0).Before(time.Now())
}

// askHelper runs one helper. A helper may be shell text after a "!", the path of a program, or what follows git-credential- in a
// program's name; arguments may follow.
func (f *Finder) askHelper(ctx context.Context, helper string, q question) (map[string]string, error) {
	command, isShell := strings.CutPrefix(helper, "!")
	if !isShell && !isProgramPath(command) {
		command = f.helperProgram(command)
	}
	out, err := f.run(ctx, f.shell(command+" get"), q.encode())
	if err != nil {
		// The rest of the command may hold a secret.
		return nil, fmt.Errorf("the git credential helper %q gave no answer: %w", firstWord(helper), brief(err))
	}
	return decode(out), nil
}

// brief keeps what a process printed and the arguments it had out of an error.
func brief(err error) error {
	if errors.Is(err, errSilent) || errors.Is(err, context.Canceled) {
		return err
	}
	return errors.New(firstLine(err.Error()))
}

func firstLine(text string) string {
	line, _, _ := strings.Cut(text, "\n")
	return line
}

func firstWord(text string) string {
	if fields := strings.Fields(text); len(fields) > 0 {
		return fields[0]
	}
	return text
}

func isProgramPath(command string) bool {
	return filepath.IsAbs(firstWord(command)) || strings.HasPrefix(command, "/")
}

// helperProgram returns the command of a helper that is named in short: a program in PATH, else git itself finds it.
func (f *Finder) helperProgram(helper string) string {
	name := firstWord(helper)
	for _, dir := range filepath.SplitList(f.getenv("PATH")) {
		for _, ext := range []string{"", ".exe"} {
			if info, err := os.Stat(filepath.Join(dir, "git-credential-"+name+ext)); err == nil && info.Mode().IsRegular() {
				return "git-credential-" + helper
			}
		}
	}
	return "git credential-" + helper
}

// shell is the argument vector that runs a command as git does. Windows has no shell of this kind unless git brought one.
func (f *Finder) shell(command string) []string {
	if runtime.GOOS == "windows" && !f.onPath("sh.exe") {
		return strings.Fields(command)
	}
	return []string{"sh", "-c", command}
}

func (f *Finder) onPath(program string) bool {
	for _, dir := range filepath.SplitList(f.getenv("PATH")) {
		if info, err := os.Stat(filepath.Join(dir, program)); err == nil && info.Mode().IsRegular() {
			return true
		}
	}
	return false
}

// encode writes the question in git's credential protocol.
func (q question) encode() string {
	var b strings.Builder
	for _, field := range [][2]string{{"protocol", q.protocol}, {"host", q.host}, {"path", q.path}, {"username", q.username}} {
		if field[1] != "" {
			b.WriteString(field[0] + "=" + field[1] + "\n")
		}
	}
	return b.String() + "\n"
}

// decode reads an answer in git's credential protocol.
func decode(text string) map[string]string {
	answer := map[string]string{}
	for line := range strings.Lines(text) {
		line = strings.TrimRight(line, "\r\n")
		if line == "" {
			break
		}
		if key, value, ok := strings.Cut(line, "="); ok {
			answer[key] = value
		}
	}
	return answer
}

// askpass is the program that asks for a password when no helper knows one; "" is none.
func (f *Finder) askpass(config gitConfig) string {
	for _, program := range []string{f.getenv("GIT_ASKPASS"), config.core("askpass"), f.getenv("SSH_ASKPASS")} {
		if program != "" {
			return f.expandHome(program)
		}
	}
	return ""
}

// askProgram asks an askpass program for what is missing: its argument is the question, its output the answer.
func (f *Finder) askProgram(ctx context.Context, program string, q question) (user, password string, ok bool, err error) {
	place := q.protocol + "://"
	end := q.host
	if q.path != "" {
		end += "/" + q.path
	}
	if user = q.username; user == "" {
		if user, err = f.prompt(ctx, program, "Username for '"+place+end+"': "); err != nil || user == "" {
			return "", "", false, err
		}
	}
	password, err = f.prompt(ctx, program, "Password for '"+place+user+"@"+end+"': ")
	return user, password, err == nil && password != "", err
}

func (f *Finder) prompt(ctx context.Context, program, text string) (string, error) {
	out, err := f.run(ctx, []string{program, text}, "")
	if err != nil {
		return "", fmt.Errorf("the askpass program %s gave no answer: %w", program, brief(err))
	}
	return strings.TrimRight(firstLine(out), "\r"), nil
}
