package worktree

import (
	"fmt"
	"path/filepath"
	"strings"
)

// config is a Git configuration file, without the files that it includes.
type config struct{ settings []setting }

// setting is one line of it. Section and key are lower case.
type setting struct {
	section, sub, key, value string
	hasSub                   bool
	bare                     bool // it stands without a value, which means true
}

func (s setting) name() string {
	if s.hasSub {
		return s.section + "." + s.sub + "." + s.key
	}
	return s.section + "." + s.key
}

func (s setting) header() string {
	if !s.hasSub {
		return "[" + s.section + "]\n"
	}
	return "[" + s.section + ` "` + strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(s.sub) + "\"]\n"
}

// quote writes a value so that any reader gets the same.
func quote(value string) string {
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`, "\t", `\t`, "\b", `\b`).Replace(value) + `"`
}

// get returns the last value of a setting, "" when it is not there. The name is lower case.
func (c *config) get(name string) string {
	value := ""
	for _, s := range c.settings {
		if s.name() == name {
			value = s.value
		}
	}
	return value
}

// readConfig reads a configuration file of a repository. One that is not there is empty.
func readConfig(dir, name string) (*config, error) {
	text, _, err := readFile(dir, name, MaxConfig)
	if gone(err) {
		return &config{}, nil
	}
	if err != nil {
		return nil, err
	}
	c, err := parseConfig(string(text))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", filepath.Join(dir, name), err)
	}
	return c, nil
}

// parseConfig reads the text of a configuration file, as git-config(1) describes it.
func parseConfig(text string) (*config, error) {
	p := &configParser{text: strings.TrimPrefix(text, "\ufeff"), line: 1}
	for {
		p.blank()
		if p.at >= len(p.text) {
			return &p.config, nil
		}
		var err error
		if p.peek() == '[' {
			err = p.section()
		} else {
			err = p.setting()
		}
		if err != nil {
			return nil, fmt.Errorf("line %d: %w", p.line, err)
		}
	}
}

type configParser struct {
	config
	text string
	at   int
	line int

	head setting // the section that is open
	open bool
}

// peek is the next byte, 0 at the end. A carriage return before a line feed is not seen.
func (p *configParser) peek() byte {
	if p.at+1 < len(p.text) && p.text[p.at] == '\r' && p.text[p.at+1] == '\n' {
		p.at++
	}
	if p.at >= len(p.text) {
		return 0
	}
	return p.text[p.at]
}

func (p *configParser) next() byte {
	b := p.peek()
	if b == '\n' {
		p.line++
	}
	p.at++
	return b
}

// blank passes over empty space and comments.
func (p *configParser) blank() {
	for p.at < len(p.text) {
		switch p.peek() {
		case ' ', '\t', '\n', '\r', '\f', '\v':
			p.next()
		case '#', ';':
			for p.at < len(p.text) && p.peek() != '\n' {
				p.next()
			}
		default:
			return
		}
	}
}

func letter(b byte) bool {
	return b >= 'a' && b <= 'z' || b >= 'A' && b <= 'Z' || b >= '0' && b <= '9' || b == '-'
}

// section reads [name], [name "sub"] or the old [name.sub].
func (p *configParser) section() error {
	p.next()
	start := p.at
	for letter(p.peek()) || p.peek() == '.' {
		p.next()
	}
	name := strings.ToLower(p.text[start:p.at])
	p.head = setting{}
	p.head.section, p.head.sub, p.head.hasSub = strings.Cut(name, ".")
	for p.peek() == ' ' || p.peek() == '\t' {
		p.next()
	}
	if p.peek() == '"' {
		p.next()
		var sub strings.Builder
		for {
			b := p.next()
			switch {
			case p.at > len(p.text), b == '\n':
				return fmt.Errorf("the name of a section has no end")
			case b == '\\':
				if b = p.next(); p.at > len(p.text) || b == '\n' {
					return fmt.Errorf("the name of a section has no end")
				}
				sub.WriteByte(b)
				continue
			case b != '"':
				sub.WriteByte(b)
				continue
			}
			break
		}
		p.head.section, p.head.sub, p.head.hasSub = name, sub.String(), true
	}
	if p.next() != ']' || p.at > len(p.text) || p.head.section == "" {
		return fmt.Errorf("this is not a section")
	}
	p.open = true
	return nil
}

// setting reads key, or key = value.
func (p *configParser) setting() error {
	start := p.at
	for letter(p.peek()) {
		p.next()
	}
	if p.at == start || !p.open {
		return fmt.Errorf("this is not a setting")
	}
	s := p.head
	s.key, s.value, s.bare = strings.ToLower(p.text[start:p.at]), "true", true
	for p.peek() == ' ' || p.peek() == '\t' {
		p.next()
	}
	switch b := p.peek(); {
	case b == '=':
		p.next()
		value, err := p.value()
		if err != nil {
			return err
		}
		s.value, s.bare = value, false
	case b != '\n' && b != '#' && b != ';' && p.at < len(p.text):
		return fmt.Errorf("this is not a setting")
	}
	p.settings = append(p.settings, s)
	return nil
}

// value reads what stands behind an equals sign: with quotes, escapes, comments and continued lines.
func (p *configParser) value() (string, error) {
	var out strings.Builder
	quoted, solid := false, 0 // solid is the length without the space at the end
	for {
		b := p.peek()
		switch {
		case p.at >= len(p.text) || b == '\n':
			if quoted {
				return "", fmt.Errorf("a value's quotes have no end")
			}
			return out.String()[:solid], nil
		case !quoted && (b == '#' || b == ';'):
			for p.at < len(p.text) && p.peek() != '\n' {
				p.next()
			}
			continue
		case b == '"':
			quoted = !quoted
			p.next()
			solid = max(solid, 0)
			continue
		case b == '\\':
			p.next()
			c := p.next()
			if c == '\n' {
				continue
			}
			i := strings.IndexByte(`ntb\"`, c)
			if i < 0 || p.at > len(p.text) {
				return "", fmt.Errorf(`\%c is not an escape`, c)
			}
			out.WriteByte("\n\t\b\\\""[i])
			solid = out.Len()
			continue
		}
		p.next()
		space := b == ' ' || b == '\t'
		if space && !quoted && out.Len() == 0 {
			continue
		}
		out.WriteByte(b)
		if !space || quoted {
			solid = out.Len()
		}
	}
}
