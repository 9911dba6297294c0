package config

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/rogpeppe/go-internal/lockedfile"

	"github.com/rungci/rung/internal/wholefile"
	"github.com/rungci/rung/steps/diag"
)

const (
	fileMode     = 0o600 // of a new file with tokens
	fileMostMode = 0o640 // that one which is edited may keep
)

// Edit replaces the file at path by what change makes of its text, which is empty if there is none. The file is written whole or not at all and
// keeps its owner and its group's right to read, a new one, and one that everybody could read, is readable by its owner only, and what change makes must be a valid configuration. Two programs that edit it wait for each other.
func Edit(path string, change func(text []byte) ([]byte, error)) error {
	if real, err := filepath.EvalSymlinks(path); err == nil {
		path = real
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return err
	}
	unlock, err := lockedfile.MutexAt(filepath.Join(filepath.Dir(path), "."+filepath.Base(path)+".lock")).Lock()
	if err != nil {
		return fmt.Errorf("locking %s: %w", path, err)
	}
	defer unlock()
	text, err := readFile(path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	before := Check(path, text, os.Getenv)
	if err := before.Unusable(); err != nil {
		return err
	}
	if err := editable(path, text); err != nil {
		return err
	}
	changed, err := change(slices.Clone(text))
	if err != nil || bytes.Equal(changed, text) {
		return err
	}
	if err := Check(path, changed, os.Getenv).Err(); len(diag.Of(err)) > len(diag.Of(before.Err())) {
		return fmt.Errorf("the changed configuration would not be valid, and %s stays as it was: %w", path, err)
	}
	return wholefile.Edit(path, fileMode, fileMostMode, changed)
}

// editable refuses a file whose entries are not tables of their own: runners = [{name = "a"}, …].
func editable(path string, text []byte) error {
	doc, err := parse(path, text)
	if err != nil {
		return err
	}
	if _, ok := doc.keys["runners"]; !ok || doc.tables["runners"] > 0 {
		return nil
	}
	span, source := doc.at("runners", doc.keys)
	return diag.Diagnostic{Span: span, Source: source, Message: "entries in `runners = […]` cannot be changed or added to", Hint: "write each of them as a table, below a line [[runners]]"}
}

// Add appends an entry, which is TOML that begins with [[runners]].
func Add(text []byte, entry string) []byte {
	if len(text) > 0 && text[len(text)-1] != '\n' {
		text = append(text, '\n')
	}
	if len(text) > 0 {
		text = append(text, '\n')
	}
	return append(text, entry...)
}

// Remove takes out the entry with an index, from its [[runners]] to what follows, with the comments in it.
func Remove(text []byte, index int) ([]byte, error) {
	doc, err := parse("", text)
	if err != nil {
		return nil, err
	}
	start, end, err := doc.section(index)
	if err != nil {
		return nil, err
	}
	return slices.Concat(text[:start], text[end:]), nil
}

// section is where the text of an entry begins and ends. Comments right above the next heading are not part of it.
func (d *document) section(index int) (start, end int, err error) {
	own := fmt.Sprintf("runners[%d]", index)
	start, end = -1, len(d.text)
	ended := false
	for _, h := range d.headings {
		mine := h.path == own || strings.HasPrefix(h.path, own+".")
		switch {
		case mine && ended:
			return 0, 0, fmt.Errorf("%s is written in several places of the file: edit it by hand", own)
		case mine && start < 0:
			start = h.line
		case !mine && start >= 0 && !ended:
			end, ended = d.above(h.line), true
		}
	}
	if start < 0 {
		return 0, 0, fmt.Errorf("%s does not begin with a line [[runners]]: edit it by hand", own)
	}
	return start, end, nil
}

// above moves the beginning of a line to that of the comments right above it.
func (d *document) above(line int) int {
	for line > 0 {
		before := strings.LastIndexByte(d.text[:line-1], '\n') + 1
		if !strings.HasPrefix(strings.TrimSpace(d.text[before:line]), "#") {
			break
		}
		line = before
	}
	return line
}

// Token is what GitLab gives an entry.
type Token struct {
	ID       int64
	Token    string
	Obtained time.Time
	Expires  time.Time // zero: never
}

// SetToken replaces the token of the entry with an index, and the times that belong to it.
func SetToken(text []byte, index int, token Token) ([]byte, error) {
	values := []struct{ key, toml string }{
		{"token_expires_at", when(token.Expires)}, {"token_obtained_at", when(token.Obtained)}, {"token", quote(token.Token)},
	}
	for _, v := range values {
		doc, err := parse("", text)
		if err != nil {
			return nil, err
		}
		if text, err = doc.set(index, v.key, v.toml); err != nil {
			return nil, err
		}
	}
	return text, nil
}

// when is a time as gitlab-runner writes it: year 1 is never.
func when(t time.Time) string { return t.UTC().Truncate(time.Second).Format(time.RFC3339) }

// set replaces the value of a key of an entry, or adds the key below the entry's token.
func (d *document) set(index int, key, value string) ([]byte, error) {
	base := fmt.Sprintf("runners[%d].", index)
	if r, ok := d.vals[base+key]; ok {
		return []byte(d.text[:r.Offset] + value + d.text[r.Offset+r.Length:]), nil
	}
	r, ok := d.vals[base+"token"]
	if !ok {
		return nil, fmt.Errorf("runners[%d] has no token that could be replaced", index)
	}
	end := int(r.Offset + r.Length)
	line, _, _ := strings.Cut(d.text[end:], "\n")
	end += len(line)
	start := strings.LastIndexByte(d.text[:r.Offset], '\n') + 1
	own := strings.TrimLeft(d.text[start:], " \t")
	indent := d.text[start : len(d.text)-len(own)]
	if !strings.HasPrefix(own, "token") {
		return nil, fmt.Errorf("the token of runners[%d] is not on a line of its own: edit the file by hand", index)
	}
	return []byte(d.text[:end] + "\n" + indent + key + " = " + value + d.text[end:]), nil
}
