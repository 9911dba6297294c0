package pluginhost

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"strings"

	"github.com/hashicorp/go-hclog"
)

// said is what a plugin writes, on its way to the log.
type said struct {
	to       hclog.Logger
	kept     io.Writer // of standard error, for the error of a plugin that does not start
	panicked bool
	level    hclog.Level // of a line that goes on; NoLevel: none does
}

// printed takes a line of standard output.
func (s *said) printed(line []byte, _ bool) { s.to.Debug(string(line)) }

// wrote takes a line of standard error: JSON as hclog writes it, or text, which may begin with its level.
func (s *said) wrote(line []byte, more bool) {
	_, _ = s.kept.Write(append(line[:len(line):len(line)], '\n'))
	level, message, args := s.level, string(line), []any(nil)
	if level == hclog.NoLevel {
		level, message, args = s.read(line)
	}
	s.to.Log(level, message, args...)
	if s.level = hclog.NoLevel; more {
		s.level = level
	}
}

// read is what a line says. What is not a whole line of JSON says itself.
func (s *said) read(line []byte) (level hclog.Level, message string, args []any) {
	level, message, args, err := entry(line)
	if err == nil {
		return level, message, args
	}
	text := string(line)
	s.panicked = s.panicked || strings.HasPrefix(text, "panic: ") || strings.HasPrefix(text, "fatal error: ")
	switch {
	case s.panicked:
		level = hclog.Error
	case level == hclog.NoLevel:
		level = hclog.Debug
	}
	for _, l := range []hclog.Level{hclog.Info, hclog.Warn, hclog.Error} {
		if strings.HasPrefix(text, "["+strings.ToUpper(l.String())+"]") {
			level = l
		}
	}
	return level, text, nil
}

var errNoEntry = errors.New("not a line of a log")

// entry reads a line of hclog's. With an error, the level is that of a line whose end is missing, if it is known. Values are in the order of the line, and numbers have all their digits.
func entry(line []byte) (level hclog.Level, message string, args []any, err error) {
	from := json.NewDecoder(bytes.NewReader(line))
	from.UseNumber()
	if begin, err := from.Token(); err != nil || begin != json.Delim('{') {
		return 0, "", nil, errNoEntry
	}
	var time any
	for from.More() {
		key, err := from.Token()
		if err != nil {
			return level, "", nil, err
		}
		var value any
		if err := from.Decode(&value); err != nil {
			return level, "", nil, err
		}
		switch text, _ := value.(string); key {
		case "@level":
			level = hclog.LevelFromString(text)
		case "@message":
			message = text
		case "@timestamp":
			time = value
		default:
			args = append(args, key, value)
		}
	}
	_, err = from.Token()
	if _, end := from.Token(); err != nil || end != io.EOF || level == hclog.NoLevel || level == hclog.Off {
		return hclog.NoLevel, "", nil, errNoEntry
	}
	if time != nil {
		args = append(args, "timestamp", time)
	}
	return level, message, args, nil
}
