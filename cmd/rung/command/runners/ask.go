package runners

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"

	"golang.org/x/term"

	"github.com/rungci/rung/cmd/step-runner/command"
	"github.com/rungci/rung/cmd/step-runner/command/exit"
	"github.com/rungci/rung/manager/config"
)

// asker asks a person for what is missing: on a terminal, or on a standard input that has the answers, a line each.
type asker struct {
	p          *command.Program
	unattended bool
	lines      *bufio.Reader
	err        error // the first; nothing is asked after it
}

// text asks for a value that is not there. With a default an empty answer is one, and nothing has to be asked.
func (a *asker) text(values config.Values, key, question, otherwise string) {
	if has, _ := values[key].(string); has != "" || a.err != nil {
		return
	}
	flag := kebab(key)
	answer := ""
	if !a.unattended {
		answer = a.line(question, otherwise)
	}
	if answer == "" {
		answer = otherwise
	}
	if answer == "" {
		a.missing(flag)
		return
	}
	values[key] = answer
}

func (a *asker) missing(flag string) {
	if a.err == nil {
		a.err = exit.Usage("--%s is missing", flag).Hinted("see `rung register --help`")
	}
}

// line asks for one line.
func (a *asker) line(question, otherwise string) string {
	if otherwise != "" {
		question += " [" + otherwise + "]"
	}
	fmt.Fprintf(a.p.Stderr, "Enter %s: ", question)
	if a.lines == nil {
		a.lines = bufio.NewReader(a.p.Stdin)
	}
	text, err := a.lines.ReadString('\n')
	if err != nil && !errors.Is(err, io.EOF) {
		a.err = err
	}
	if err != nil {
		fmt.Fprintln(a.p.Stderr)
	}
	return strings.TrimSpace(text)
}

// secret asks for a token, which a terminal does not show.
func (a *asker) secret(flag, question string) string {
	if a.err != nil {
		return ""
	}
	text := ""
	if !a.unattended {
		text = a.hidden(question)
	}
	if text == "" {
		a.missing(flag)
	}
	return text
}

func (a *asker) hidden(question string) string {
	file, ok := a.p.Stdin.(*os.File)
	if !ok || !term.IsTerminal(int(file.Fd())) {
		return a.line(question, "")
	}
	fmt.Fprintf(a.p.Stderr, "Enter %s (it is not shown): ", question)
	state, err := term.GetState(int(file.Fd()))
	if err != nil {
		a.err = err
		return ""
	}
	interrupted := make(chan os.Signal, 1)
	signal.Notify(interrupted, os.Interrupt)
	defer signal.Stop(interrupted)
	type answer struct {
		text []byte
		err  error
	}
	answers := make(chan answer, 1)
	go func() {
		text, err := term.ReadPassword(int(file.Fd()))
		answers <- answer{text, err}
	}()
	select {
	case got := <-answers:
		fmt.Fprintln(a.p.Stderr)
		if a.err = got.err; errors.Is(got.err, io.EOF) {
			a.err = nil
		}
		return strings.TrimSpace(string(got.text))
	case <-interrupted: // the terminal shows what is typed again
		_ = term.Restore(int(file.Fd()), state)
		fmt.Fprintln(a.p.Stderr)
		a.err = exit.Shown(exit.Interrupted)
		return ""
	}
}
