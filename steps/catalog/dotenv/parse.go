package dotenv

import (
	"bytes"
	"compress/gzip"
	"encoding/binary"
	"fmt"
	"io"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

// maxName is how long the name of a variable may be, as GitLab has it, in bytes.
const maxName = 255

// Limits bound what a file may hold; 0 means no limit.
type Limits struct {
	Bytes     int
	Variables int // those with the same name count once
}

// Variable is a variable of a file.
type Variable struct{ Name, Value string }

// ParseError says what a line has wrong.
type ParseError struct {
	Line int // from 1
	Why  string
}

func (e *ParseError) Error() string { return fmt.Sprintf("line %d: %s", e.Line, e.Why) }

// LimitError says that there is more than GitLab takes.
type LimitError struct {
	What       string // "bytes" or "variables"
	Got, Limit int
}

func (e *LimitError) Error() string {
	return fmt.Sprintf("it has %d %s; at most %d are allowed", e.Got, e.What, e.Limit)
}

// ParseReport reads a report as it is uploaded, compressed with gzip.
func ParseReport(data []byte, l Limits) ([]Variable, error) {
	in, err := gzip.NewReader(bytes.NewReader(data))
	if err != nil {
		return nil, err
	}
	text, err := io.ReadAll(io.LimitReader(in, cap64(l.Bytes)+1))
	if err != nil {
		return nil, err
	}
	return Parse(text, l)
}

// Parse reads a file as GitLab reads the report of dotenv, in the order in which names come up. Of several variables of one name the last
// one counts.
//
//   - Every line is NAME=VALUE; there are no empty lines, comments, or values of several lines.
//   - A name is made of letters, digits and "_" of ASCII. Space around names and values is not part of them.
//   - Nothing else means anything in a value: quotes are part of it, and "$" and "#" are signs like any other.
//   - The text is UTF-8. A byte order mark is skipped, and UTF-16 that begins with one is read, since PowerShell writes it.
func Parse(data []byte, l Limits) ([]Variable, error) {
	if l.Bytes > 0 && len(data) > l.Bytes {
		return nil, &LimitError{What: "bytes", Got: len(data), Limit: l.Bytes}
	}
	text, err := decode(data)
	if err != nil {
		return nil, err
	}
	var list []Variable
	place := map[string]int{}
	number := 0
	for line := range strings.Lines(text) {
		number++
		v, why := parseLine(strings.TrimSuffix(line, "\n"))
		if why != "" {
			return nil, &ParseError{Line: number, Why: why}
		}
		if at, ok := place[v.Name]; ok {
			list[at] = v
			continue
		}
		place[v.Name] = len(list)
		list = append(list, v)
	}
	if l.Variables > 0 && len(list) > l.Variables {
		return nil, &LimitError{What: "variables", Got: len(list), Limit: l.Variables}
	}
	return list, nil
}

func parseLine(line string) (v Variable, why string) {
	name, text, found := strings.Cut(line, "=")
	if !found {
		if strings.Trim(line, space) == "" {
			return v, "it is empty; every line must be NAME=VALUE"
		}
		return v, "it is not NAME=VALUE; comments, and values of several lines, are not supported"
	}
	v = Variable{Name: strings.Trim(name, space), Value: strings.Trim(text, space)}
	switch {
	case v.Name == "":
		return v, "there is no name before the ="
	case strings.HasPrefix(v.Name, "#"):
		return v, "comments are not supported"
	case strings.Trim(v.Name, letters) != "":
		return v, fmt.Sprintf("the name %q can have only letters, digits and _", v.Name)
	case len(v.Name) > maxName:
		return v, fmt.Sprintf("the name is longer than %d characters", maxName)
	case strings.Contains(v.Value, "\x00"):
		return v, "the value has a zero byte, which no variable of a process can have"
	}
	return v, ""
}

const (
	space   = " \t\n\v\f\r\x00"
	letters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_"
)

// decode returns a text as UTF-8.
func decode(data []byte) (string, error) {
	switch {
	case bytes.HasPrefix(data, []byte("\xff\xfe")):
		return decode16(data[2:], binary.LittleEndian)
	case bytes.HasPrefix(data, []byte("\xfe\xff")):
		return decode16(data[2:], binary.BigEndian)
	}
	data = bytes.TrimPrefix(data, []byte("\ufeff"))
	if !utf8.Valid(data) {
		return "", &ParseError{Line: lineOf(data), Why: "it is not UTF-8"}
	}
	return string(data), nil
}

// lineOf returns the line of the first byte that is not UTF-8.
func lineOf(data []byte) int {
	line := 1
	for len(data) > 0 {
		r, size := utf8.DecodeRune(data)
		if r == utf8.RuneError && size == 1 {
			break
		}
		if r == '\n' {
			line++
		}
		data = data[size:]
	}
	return line
}

func decode16(data []byte, order binary.ByteOrder) (string, error) {
	if len(data)%2 != 0 {
		return "", &ParseError{Line: 1, Why: "it is UTF-16 that is cut short"}
	}
	units := make([]uint16, len(data)/2)
	for i := range units {
		units[i] = order.Uint16(data[2*i:])
	}
	return string(utf16.Decode(units)), nil
}
