package github

import (
	"bytes"
	"fmt"
	"io"
	"strings"
	"unicode"

	"github.com/rungci/rung/steps/value"
)

// MaxCommand bounds one command in the output, in bytes. A longer line is text.
const MaxCommand = 16 << 20

// filter takes the commands out of one stream. What cannot be a command passes at once; a line that may be one is held back
// until it is complete. Lines end with a line feed, a carriage return, or both.
type filter struct {
	session *Session
	next    io.Writer
	line    []byte // what is held back
	passing bool   // the rest of the line is text
	swallow bool   // the line feed of a command's line end is still to come
	out     []byte // what passes, for one write
}

// Write implements io.Writer.
func (f *filter) Write(p []byte) (int, error) {
	f.session.mu.Lock()
	defer f.session.mu.Unlock()
	for rest := p; len(rest) > 0; {
		if f.swallow {
			f.swallow = false
			if rest[0] == '\n' {
				rest = rest[1:]
				continue
			}
		}
		piece, ended := rest, false
		if i := bytes.IndexAny(rest, "\r\n"); i >= 0 {
			piece, ended = rest[:i+1], true
		}
		rest = rest[len(piece):]
		switch {
		case f.passing:
			f.out = append(f.out, piece...)
			f.passing = !ended
		case ended:
			f.line = append(f.line, piece...)
			f.complete()
		default:
			f.line = append(f.line, piece...)
			if !mayBeCommand(f.line) || len(f.line) > MaxCommand {
				f.pass()
				f.passing = true
			}
		}
	}
	return len(p), f.flush()
}

// mayBeCommand reports whether the beginning of a line is that of a command.
func mayBeCommand(line []byte) bool {
	line = bytes.TrimLeftFunc(line, unicode.IsSpace)
	return len(line) == 0 || bytes.HasPrefix(line, []byte("::")) || len(line) == 1 && line[0] == ':'
}

// complete takes the line, which is at its end, as a command or as text.
func (f *filter) complete() {
	if mayBeCommand(f.line) {
		line := strings.TrimRight(string(f.line), "\r\n")
		if shown, ok := f.session.command(line); ok {
			f.swallow = len(f.line) > 0 && f.line[len(f.line)-1] == '\r'
			f.line = f.line[:0]
			f.out = append(f.out, shown...)
			return
		}
	}
	f.pass()
}

func (f *filter) pass() {
	f.out = append(f.out, f.line...)
	f.line = f.line[:0]
}

func (f *filter) flush() error {
	if len(f.out) == 0 {
		return nil
	}
	_, err := f.next.Write(f.out)
	f.out = f.out[:0]
	return err
}

// end takes a last line without line end.
func (f *filter) end() {
	f.session.mu.Lock()
	defer f.session.mu.Unlock()
	f.complete()
	_ = f.flush() // the log takes everything
}

// command is a line such as "::error file=a.js,line=3::text".
type command struct {
	name       string // in lower case
	properties map[string]string
	data       string
}

var (
	unescapeData     = strings.NewReplacer("%0D", "\r", "%0A", "\n", "%25", "%")
	unescapeProperty = strings.NewReplacer("%0D", "\r", "%0A", "\n", "%3A", ":", "%2C", ",", "%25", "%")
)

func parseCommand(line string) (command, bool) {
	rest, ok := strings.CutPrefix(strings.TrimLeftFunc(line, unicode.IsSpace), "::")
	head, data, closed := strings.Cut(rest, "::")
	if !ok || !closed {
		return command{}, false
	}
	name, properties, _ := strings.Cut(head, " ")
	c := command{name: strings.ToLower(name), properties: map[string]string{}, data: unescapeData.Replace(data)}
	for property := range strings.SplitSeq(strings.TrimSpace(properties), ",") {
		if key, text, ok := strings.Cut(property, "="); ok {
			c.properties[strings.ToLower(key)] = unescapeProperty.Replace(text)
		}
	}
	return c, true
}

// messages are the commands that say something to people, and how the log shows them.
var messages = map[string]string{"debug": "Debug: ", "notice": "Notice: ", "warning": "Warning: ", "error": "Error: "}

// commands are what each command does; it returns what the log shows of it.
var commands = map[string]func(*Session, command) string{
	"add-mask":   (*Session).addMask,
	"set-output": (*Session).setOutput,
	"save-state": (*Session).saveState,
	"set-env":    (*Session).disabled,
	"add-path":   (*Session).disabled,
	"echo":       (*Session).setEcho,
	// What would make annotations of the output: nothing shows them.
	"add-matcher":    func(*Session, command) string { return "" },
	"remove-matcher": func(*Session, command) string { return "" },
	"group":          func(_ *Session, c command) string { return c.data + "\n" },
	"endgroup":       func(*Session, command) string { return "" },
}

// command carries out the command in a line, and returns what the log shows instead of the line. It returns false for text.
func (s *Session) command(line string) (shown string, ok bool) {
	c, ok := parseCommand(line)
	if !ok {
		return "", false
	}
	switch {
	case s.stopped != "":
		if c.name == s.stopped {
			s.stopped = ""
		}
		return "", false
	case c.name == "stop-commands":
		s.stop(c.data)
		return "", false
	case messages[c.name] != "":
		return s.message(c), true
	}
	act, known := commands[c.name]
	if !known {
		return "", false
	}
	if s.echo && (c.name == "set-output" || c.name == "save-state") {
		shown = strings.TrimLeftFunc(line, unicode.IsSpace) + "\n"
	}
	return shown + act(s, c), true
}

// maxOpenWord is how long a word that stops commands may be and stay readable: a short one may be a word of the log's.
const maxOpenWord = 6

// stop makes commands text until a line "::word::" comes.
func (s *Session) stop(word string) {
	name := strings.ToLower(word)
	_, isCommand := commands[name]
	if name == "" || name == "stop-commands" || name == "pause-logging" || messages[name] != "" || isCommand {
		s.fail("::stop-commands:: needs a word that nobody can guess, not %q", shorten(word))
		return
	}
	s.stopped = name
	if len(word) > maxOpenWord {
		s.process.Mask(word) // so that nothing that reads the log can learn it
	}
}

// message shows what the process has to say, with the place that it is about. Debug messages are for those who ask.
func (s *Session) message(c command) string {
	if c.name == "debug" && s.process.Getenv("RUNNER_DEBUG") != "1" && s.process.Getenv("ACTIONS_STEP_DEBUG") != "true" {
		return ""
	}
	place := c.properties["file"]
	for _, part := range []string{"line", "col"} {
		if text := c.properties[part]; text != "" && place != "" {
			place += ":" + text
		}
	}
	if place != "" {
		place += ": "
	}
	return messages[c.name] + place + c.data + "\n"
}

// addMask masks the data as a whole, and each line of it: logs come in lines.
func (s *Session) addMask(c command) string {
	if strings.TrimSpace(c.data) == "" {
		return "Warning: ::add-mask:: has nothing to mask\n"
	}
	s.process.Mask(c.data)
	for line := range strings.FieldsFuncSeq(c.data, func(r rune) bool { return r == '\r' || r == '\n' }) {
		s.process.Mask(line)
	}
	return ""
}

func (s *Session) setOutput(c command) string {
	name := c.properties["name"]
	if name == "" {
		return s.mistake("::set-output:: has no name")
	}
	s.outputs[name] = value.OfString(c.data)
	return s.deprecated(c.name, "GITHUB_OUTPUT")
}

// saveState has nothing to do: state is for what runs after the job, and nothing of an action does.
func (s *Session) saveState(c command) string {
	if c.properties["name"] == "" {
		return s.mistake("::save-state:: has no name")
	}
	return s.deprecated(c.name, "GITHUB_STATE")
}

func (s *Session) deprecated(name, file string) string {
	if s.warned[name] {
		return ""
	}
	s.warned[name] = true
	return fmt.Sprintf("Warning: the command ::%s:: is deprecated; write to the file in $%s\n", name, file)
}

// disabled is what GitHub no longer takes from what a process prints: whatever it prints could be somebody else's.
func (s *Session) disabled(c command) string {
	file := map[string]string{"set-env": "GITHUB_ENV", "add-path": "GITHUB_PATH"}[c.name]
	return s.mistake(fmt.Sprintf("the command ::%s:: is disabled; write to the file in $%s", c.name, file))
}

func (s *Session) setEcho(c command) string {
	switch strings.ToLower(c.data) {
	case "on", "off":
		s.echo = strings.EqualFold(c.data, "on")
		return ""
	default:
		return s.mistake(fmt.Sprintf("::echo:: takes on or off, not %q", shorten(c.data)))
	}
}

// mistake makes the step fail when it ends, and says so in the log.
func (s *Session) mistake(message string) string {
	s.fail("%s", message)
	return "Error: " + message + "\n"
}
