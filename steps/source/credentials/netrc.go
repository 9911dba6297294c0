package credentials

import (
	"fmt"
	"net"
	"net/url"
	"path/filepath"
	"runtime"
	"strings"
)

// machine is an entry of a netrc file.
type machine struct {
	name            string // "" is the default
	login, password string
}

// netrc looks for a host in the user's netrc file. An entry for "host:port" comes before one for the host.
func (f *Finder) netrc(at *url.URL) (user, password string, ok bool, err error) {
	for _, path := range f.netrcFiles() {
		text, err := readFile(path)
		if err != nil {
			return "", "", false, err
		}
		machines, line := parseNetrc(string(text))
		if line > 0 {
			return "", "", false, fmt.Errorf("%s:%d: this is not a netrc file: it has machine, login, password, account, macdef and default, with a value after each", path, line)
		}
		host, port := hostPort(at)
		for _, name := range []string{net.JoinHostPort(host, port), host, ""} {
			for _, m := range machines {
				if strings.EqualFold(m.name, name) && m.password != "" && (at.User.Username() == "" || m.login == at.User.Username()) {
					return m.login, m.password, true, nil
				}
			}
		}
	}
	return "", "", false, nil
}

func (f *Finder) netrcFiles() []string {
	if path := f.getenv("NETRC"); path != "" {
		return []string{path}
	}
	if f.Home == "" {
		return nil
	}
	files := []string{filepath.Join(f.Home, ".netrc")}
	if runtime.GOOS == "windows" {
		files = append(files, filepath.Join(f.Home, "_netrc"))
	}
	return files
}

// parseNetrc reads a netrc file. Where it is wrong, line is the number of the line.
func parseNetrc(text string) (machines []machine, line int) {
	s := &netrcScanner{text: strings.TrimPrefix(text, "\ufeff"), line: 1}
	var current *machine
	start := func(name string) {
		machines = append(machines, machine{name: name})
		current = &machines[len(machines)-1]
	}
	for {
		word, ok := s.word()
		if !ok {
			if s.broken {
				return nil, s.line
			}
			return machines, 0
		}
		if strings.HasPrefix(word, "#") {
			s.skipLine()
			continue
		}
		at := s.line
		switch word {
		case "default":
			start("")
			continue
		case "macdef":
			s.skipMacro()
			continue
		}
		value, ok := s.word()
		if !ok {
			return nil, at
		}
		switch {
		case word == "machine":
			start(value)
		case current == nil:
			return nil, at
		case word == "login":
			current.login = value
		case word == "password":
			current.password = value
		case word != "account":
			return nil, at
		}
	}
}

// netrcScanner splits a netrc file into words. A word in quotes may have spaces in it, and \" \\ \n \r \t.
type netrcScanner struct {
	text   string
	line   int
	broken bool // a quote has no end
}

func (s *netrcScanner) word() (string, bool) {
	rest := strings.TrimLeft(s.text, " \t\r\n")
	s.line += strings.Count(s.text[:len(s.text)-len(rest)], "\n")
	s.text = rest
	if rest == "" {
		return "", false
	}
	if rest[0] == '"' {
		return s.quoted()
	}
	end := strings.IndexAny(rest, " \t\r\n")
	if end < 0 {
		end = len(rest)
	}
	s.text = rest[end:]
	return rest[:end], true
}

func (s *netrcScanner) quoted() (string, bool) {
	var b strings.Builder
	for i := 1; i < len(s.text); i++ {
		switch c := s.text[i]; c {
		case '"':
			s.text = s.text[i+1:]
			return b.String(), true
		case '\n':
			s.broken = true
			return "", false
		case '\\':
			if i++; i == len(s.text) {
				break
			}
			b.WriteByte(unescape(s.text[i]))
		default:
			b.WriteByte(c)
		}
	}
	s.broken = true
	return "", false
}

func unescape(c byte) byte {
	switch c {
	case 'n':
		return '\n'
	case 'r':
		return '\r'
	case 't':
		return '\t'
	}
	return c
}

func (s *netrcScanner) skipLine() {
	if i := strings.IndexByte(s.text, '\n'); i >= 0 {
		s.text = s.text[i:]
	} else {
		s.text = ""
	}
}

// skipMacro skips a macro, which ends with an empty line.
func (s *netrcScanner) skipMacro() {
	for s.text != "" {
		line, rest, _ := strings.Cut(s.text, "\n")
		if rest == "" {
			s.text = ""
			return
		}
		s.text = rest
		s.line++
		if strings.Trim(line, " \t\r") == "" {
			return
		}
	}
}
