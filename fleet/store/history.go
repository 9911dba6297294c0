package store

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"time"
)

// The history is files of at most partSize bytes, each of one day in UTC, of which the newest maxParts are kept.
const (
	historyFolder = "history"
	partSize      = 16 << 20
	maxParts      = 64
	dayLayout     = "2006-01-02"
	maxLine       = 1 << 20
)

// history is the files that are written.
type history struct {
	folder string
	file   *os.File // nil: none is open
	day    string
	size   int64
}

// append writes entries with one call, so that a reader sees each as a whole.
func (h *history) append(entries []Entry) error {
	var text []byte
	for _, e := range entries {
		line, err := json.Marshal(e)
		if err != nil {
			return err
		}
		text = append(append(text, line...), '\n')
	}
	if len(text) == 0 {
		return nil
	}
	if err := h.open(entries[0].At.UTC().Format(dayLayout)); err != nil {
		return err
	}
	n, err := h.file.Write(text)
	h.size += int64(n)
	return err
}

// open opens the file for entries of a day.
func (h *history) open(day string) error {
	if h.file != nil && day <= h.day && h.size < partSize { // a clock that was put back begins no other file
		return nil
	}
	if err := h.close(); err != nil {
		return err
	}
	names, err := parts(h.folder)
	if err != nil {
		return err
	}
	for len(names) >= maxParts {
		if err := os.Remove(filepath.Join(h.folder, names[0])); err != nil {
			return err
		}
		names = names[1:]
	}
	for part := 0; ; part++ {
		name := filepath.Join(h.folder, fmt.Sprintf("%s-%03d.jsonl", day, part))
		if info, err := os.Stat(name); err == nil && info.Size() >= partSize {
			continue
		}
		h.file, err = os.OpenFile(name, os.O_WRONLY|os.O_APPEND|os.O_CREATE, 0o600)
		if err != nil {
			return err
		}
		break
	}
	end, err := h.file.Seek(0, io.SeekEnd)
	h.day, h.size = day, end
	if err == nil && end > 0 { // the last line may be of a process that was killed while it wrote
		_, err = h.file.Write([]byte("\n"))
	}
	return err
}

func (h *history) close() error {
	if h.file == nil {
		return nil
	}
	err := h.file.Close()
	h.file = nil
	return err
}

// parts are the names of the files, the oldest first.
func parts(folder string) ([]string, error) {
	found, err := filepath.Glob(filepath.Join(folder, "*.jsonl"))
	for i := range found {
		found[i] = filepath.Base(found[i])
	}
	slices.Sort(found)
	return found, err
}

// ReadHistory is Store.History of a folder that another process may have open. Lines that cannot be read are left out.
func ReadHistory(folder string, from, to time.Time, each func(Entry) bool) error {
	folder = filepath.Join(folder, historyFolder)
	names, err := parts(folder)
	if err != nil {
		return err
	}
	first := ""
	if !from.IsZero() {
		first = from.UTC().AddDate(0, 0, -1).Format(dayLayout) // entries may be a little later than their file
	}
	for _, name := range names {
		if name < first || !to.IsZero() && name > to.UTC().AddDate(0, 0, 1).Format(dayLayout) {
			continue
		}
		more, err := readPart(filepath.Join(folder, name), func(e Entry) bool {
			return e.At.Before(from) || !to.IsZero() && !e.At.Before(to) || each(e)
		})
		if err != nil || !more {
			return err
		}
	}
	return nil
}

func readPart(name string, each func(Entry) bool) (more bool, err error) {
	file, err := os.Open(name)
	if errors.Is(err, os.ErrNotExist) {
		return true, nil // it was the oldest
	}
	if err != nil {
		return false, err
	}
	defer file.Close()
	lines := bufio.NewScanner(file)
	lines.Buffer(nil, maxLine)
	for lines.Scan() {
		var e Entry
		if json.Unmarshal(lines.Bytes(), &e) == nil && !each(e) {
			return false, nil
		}
	}
	return true, lines.Err()
}
