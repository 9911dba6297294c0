package github

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
)

// MaxFile bounds each of the files that a process writes, in bytes. A value may take all of it.
const MaxFile = 256 << 20

// pair is a name and its text in a file.
type pair struct {
	name, text string
	line       int // where it begins, counted from 1
}

// read reads a file of pairs. Those before a mistake count.
func (s *Session) read(variable string) ([]pair, error) {
	text, err := s.readText(variable, MaxFile)
	if err != nil {
		return nil, err
	}
	pairs, err := parsePairs(text)
	if err != nil {
		err = fmt.Errorf("%s: %w", variable, err)
	}
	return pairs, err
}

// errTooLarge is that of a file beyond its limit.
var errTooLarge = errors.New("the file is too large")

// readText reads one of the session's files. One that the process has removed is empty.
func (s *Session) readText(variable string, limit int64) (string, error) {
	path := filepath.Join(s.files.dir, fileVariables[variable])
	info, err := os.Lstat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return "", nil
	case err == nil && !info.Mode().IsRegular(): // opening a named pipe would wait for ever
		err = errors.New("the step replaced the file by something that is not a regular file")
	case err == nil && info.Size() > limit:
		err = fmt.Errorf("%w: it has %d KiB, and the limit is %d KiB", errTooLarge, info.Size()>>10, limit>>10)
	}
	var data []byte
	if err == nil && info.Size() > 0 {
		data, err = readRegular(path, limit)
	}
	if err != nil {
		return "", fmt.Errorf("%s: %w", variable, err)
	}
	text := string(data)
	if strings.HasPrefix(text, "\xff\xfe") || strings.HasPrefix(text, "\xfe\xff") {
		return "", fmt.Errorf("%s: the file is in UTF-16; write it as UTF-8 (in PowerShell with Out-File -Encoding utf8)", variable)
	}
	return strings.TrimPrefix(text, "\uFEFF"), nil
}

// parsePairs reads name=value lines, and texts of several lines between name<<DELIMITER and a line that is DELIMITER.
func parsePairs(text string) ([]pair, error) {
	var pairs []pair
	for number, rest := 1, text; rest != ""; number++ {
		var line string
		line, _, rest = cutLine(rest)
		if line == "" {
			continue
		}
		name, value, assigned := strings.Cut(line, "=")
		before, delimiter, here := strings.Cut(line, "<<")
		switch {
		case here && (!assigned || len(before) < len(name)):
			if before == "" || delimiter == "" {
				return pairs, fmt.Errorf("line %d: invalid format %q: neither the name nor the delimiter may be empty", number, shorten(line))
			}
			value, after, lines, err := cutHere(rest, delimiter)
			if err != nil {
				return pairs, fmt.Errorf("line %d: invalid value: %w", number, err)
			}
			pairs = append(pairs, pair{before, value, number})
			rest, number = after, number+lines
		case !assigned:
			return pairs, fmt.Errorf("line %d: invalid format %q: write name=value, or name<<DELIMITER and the lines below it", number, shorten(line))
		case name == "":
			return pairs, fmt.Errorf("line %d: invalid format %q: the name must not be empty", number, shorten(line))
		default:
			pairs = append(pairs, pair{name, value, number})
		}
	}
	return pairs, nil
}

// cutHere returns the text before the line that is the delimiter, what follows that line, and how many lines both were.
func cutHere(text, delimiter string) (value, after string, lines int, err error) {
	end := 0 // of the value, without the line break at its end
	for rest := text; rest != ""; {
		line, ending, next := cutLine(rest)
		lines++
		if line == delimiter {
			return text[:end], next, lines, nil
		}
		if ending == "" {
			return "", "", 0, fmt.Errorf("EOF marker missing new line: the last line is %q, not the delimiter %q alone", shorten(line), shorten(delimiter))
		}
		end = len(text) - len(next) - len(ending)
		rest = next
	}
	return "", "", 0, fmt.Errorf("matching delimiter not found: no line below is %q", shorten(delimiter))
}

// cutLine returns the first line, its line break, and the rest. A carriage return belongs to the break on Windows only.
func cutLine(text string) (line, ending, rest string) {
	line, rest, broken := strings.Cut(text, "\n")
	if !broken {
		return line, "", ""
	}
	if runtime.GOOS == "windows" && strings.HasSuffix(line, "\r") {
		return line[:len(line)-1], "\r\n", rest
	}
	return line, "\n", rest
}

// shorten cuts a text to a length that a message can hold.
func shorten(text string) string {
	const most = 60
	if r := []rune(text[:min(len(text), 4*most)]); len(r) > most {
		return string(r[:most]) + "…"
	}
	return text
}
