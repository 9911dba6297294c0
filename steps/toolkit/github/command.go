package github

import (
	"errors"
	"fmt"
	"strings"

	"github.com/rungci/rung/internal/mask"
	"github.com/rungci/rung/steps/engine"
	"github.com/rungci/rung/steps/event"
	"github.com/rungci/rung/steps/value"
)

// bracket begins a command of the older form.
const bracket = "##["

// command is a line such as "::error file=a.js,line=3::text", or "##[error file=a.js;line=3]text", which may stand after other text.
type command struct {
	name       string            // in lower case
	properties map[string]string // names in lower case; none is empty
	data       string
	text       string // as the process wrote it
	before     string // what the line holds before it
}

var (
	unescapeData     = strings.NewReplacer("%0D", "\r", "%0A", "\n", "%25", "%")
	unescapeProperty = strings.NewReplacer("%0D", "\r", "%0A", "\n", "%3A", ":", "%2C", ",", "%25", "%")
	unescapeBracket  = strings.NewReplacer("%0D", "\r", "%0A", "\n", "%3B", ";", "%5D", "]", "%25", "%")
)

// parseColons reads "::name key=value,…::data".
func parseColons(line string) (command, bool) {
	text := strings.TrimLeft(line, " \t\v\f")
	rest, ok := strings.CutPrefix(text, "::")
	head, data, closed := strings.Cut(rest, "::")
	if !ok || !closed {
		return command{}, false
	}
	c := parseHead(head, ",", unescapeProperty)
	c.data, c.text, c.before = unescapeData.Replace(data), text, line[:len(line)-len(text)]
	return c, true
}

// parseBracket reads "##[name key=value;…]data", anywhere in the line.
func parseBracket(line string) (command, bool) {
	before, rest, ok := strings.Cut(line, bracket)
	head, data, closed := strings.Cut(rest, "]")
	if !ok || !closed {
		return command{}, false
	}
	c := parseHead(head, ";", unescapeBracket)
	c.data, c.text, c.before = unescapeBracket.Replace(data), line[len(before):], before
	return c, true
}

func parseHead(head, separator string, unescape *strings.Replacer) command {
	name, properties, _ := strings.Cut(head, " ")
	c := command{name: strings.ToLower(name), properties: map[string]string{}}
	for property := range strings.SplitSeq(strings.TrimSpace(properties), separator) {
		if key, text, _ := strings.Cut(property, "="); key != "" && text != "" {
			c.properties[strings.ToLower(key)] = unescape.Replace(text)
		}
	}
	return c
}

// handler carries out a command. An error makes the step fail.
type handler struct {
	run func(*filter, command) error
	// quiet commands are not shown when the process asks for an echo.
	quiet bool
}

// handlers are the commands of a process. What has none is text.
var handlers = map[string]handler{
	"add-mask":       {run: addMask, quiet: true},
	"debug":          {run: debug, quiet: true},
	"notice":         {run: annotate(event.AnnotationNotice), quiet: true},
	"warning":        {run: annotate(event.AnnotationWarning), quiet: true},
	"error":          {run: annotate(event.AnnotationError), quiet: true},
	"group":          {run: group},
	"endgroup":       {run: func(*filter, command) error { return nil }},
	"echo":           {run: setEcho},
	"set-output":     {run: setOutput},
	"save-state":     {run: saveState},
	"set-env":        {run: setEnv},
	"add-path":       {run: addPath},
	"add-matcher":    {run: addMatcher},
	"remove-matcher": {run: removeMatcher},
}

const stopCommands = "stop-commands"

// accept returns the command in a line, or false for text. Only what is held back of a line can be one.
func (s *Session) accept(held []byte, at place) (command, bool) {
	if len(held) == 0 || at == inText || at == inRest {
		return command{}, false
	}
	line := string(held)
	if c, ok := parseColons(line); ok && s.counts(c.name) {
		return c, true
	}
	c, ok := parseBracket(line)
	return c, ok && s.counts(c.name)
}

// counts reports whether a name is that of a command now.
func (s *Session) counts(name string) bool {
	if s.stopped {
		return s.token != "" && name == strings.ToLower(s.token)
	}
	_, known := handlers[name]
	return known || name == stopCommands
}

// carryOut does what a command says.
func (f *filter) carryOut(c command) {
	s := f.session
	h, known := handlers[c.name]
	var err error
	switch {
	case s.stopped: // it is the token
		s.stopped, s.token = false, ""
		f.say(c.text)
		return
	case !known:
		f.say(c.text)
		err = s.stop(c.data)
	default:
		if s.echo && !h.quiet {
			f.say(c.text)
		}
		err = h.run(f, c)
	}
	if err != nil {
		s.fail(f, &engine.SaidError{Said: "::" + c.name, Err: err})
	}
}

// maxOpenToken is how long a token that lets commands count again may be and stay readable: a short one may be a word of the log's.
const maxOpenToken = 6

// stop makes commands text until a line "::token::" comes.
func (s *Session) stop(token string) error {
	name := strings.ToLower(token)
	_, isCommand := handlers[name]
	taken := name == "" || name == stopCommands || name == "pause-logging" || isCommand
	if taken && !isTrue(s.process.Getenv("ACTIONS_ALLOW_UNSECURE_STOPCOMMAND_TOKENS")) {
		return fmt.Errorf("::stop-commands:: needs a token that nobody can guess: not %q, which is empty or a command", shorten(token))
	}
	s.stopped, s.token = true, token
	if len(token) > maxOpenToken {
		s.process.Mask(token) // so that nothing that reads the log can learn it
	}
	return nil
}

func isTrue(text string) bool {
	text = strings.TrimSpace(text)
	return text == "1" || strings.EqualFold(text, "true")
}

// addMask masks the data as a whole, and each line of it: logs come in lines.
func addMask(f *filter, c command) error {
	if strings.TrimSpace(c.data) == "" {
		f.warn("::add-mask:: has nothing to mask")
		return nil
	}
	if f.session.echo {
		f.say("::add-mask::***")
	}
	f.session.process.Mask(c.data)
	for line := range strings.FieldsFuncSeq(c.data, func(r rune) bool { return r == '\r' || r == '\n' }) {
		switch line = strings.TrimSpace(line); {
		case line == "":
		case len(line) < mask.MinLength:
			f.warn(fmt.Sprintf("::add-mask:: has a value of %d bytes, which stays readable: shorter ones than %d are in any text", len(line), mask.MinLength))
		default:
			f.session.process.Mask(line)
		}
	}
	return nil
}

func group(f *filter, c command) error {
	f.say(c.data)
	return nil
}

func setEcho(f *filter, c command) error {
	switch strings.ToLower(strings.TrimSpace(c.data)) {
	case "on":
		f.session.echo = true
	case "off":
		f.session.echo = false
	default:
		return fmt.Errorf("::echo:: takes on or off, not %q", shorten(c.data))
	}
	return nil
}

func setOutput(f *filter, c command) error {
	f.deprecated(c.name, "GITHUB_OUTPUT")
	name := c.properties["name"]
	if name == "" {
		return errors.New("::set-output:: has no name")
	}
	f.session.outputs[name] = value.OfString(c.data)
	return nil
}

func saveState(f *filter, c command) error {
	f.deprecated(c.name, "GITHUB_STATE")
	name := c.properties["name"]
	if name == "" {
		return errors.New("::save-state:: has no name")
	}
	f.session.state[name] = c.data
	return nil
}

// deprecated says once that a command will go away.
func (f *filter) deprecated(name, file string) {
	if !f.session.warned[name] {
		f.session.warned[name] = true
		f.warn(fmt.Sprintf("the command ::%s:: is deprecated; write to the file in $%s", name, file))
	}
}

// disabled refuses what GitHub no longer takes from what a process prints: whatever it prints could be somebody else's.
func (f *filter) disabled(name, file string) error {
	if strings.EqualFold(strings.TrimSpace(f.session.process.Getenv("ACTIONS_ALLOW_UNSECURE_COMMANDS")), "true") {
		return nil
	}
	return fmt.Errorf("the command ::%s:: is disabled; write to the file in $%s, or set ACTIONS_ALLOW_UNSECURE_COMMANDS to true", name, file)
}

func setEnv(f *filter, c command) error {
	if err := f.disabled(c.name, "GITHUB_ENV"); err != nil {
		return err
	}
	name := c.properties["name"]
	if name == "" {
		return errors.New("::set-env:: has no name")
	}
	f.session.export(f, name, c.data)
	return nil
}

func addPath(f *filter, c command) error {
	if err := f.disabled(c.name, "GITHUB_PATH"); err != nil {
		return err
	}
	if c.data == "" {
		return errors.New("::add-path:: has no folder")
	}
	f.session.addFolder(c.data)
	return nil
}
