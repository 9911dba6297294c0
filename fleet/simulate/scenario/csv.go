package scenario

import (
	"bytes"
	"cmp"
	"encoding/csv"
	"errors"
	"io"
	"slices"
	"strconv"
	"time"

	"github.com/rungci/rung/fleet/scale"
	"github.com/rungci/rung/fleet/simulate"
	"github.com/rungci/rung/internal/placed"
)

// columns read the columns of a recorded load. Those of needs may be empty, or not be in the file.
var columns = map[string]func(j *row, text string) error{
	"created": func(j *row, text string) (err error) {
		if j.created, err = time.Parse(time.RFC3339Nano, text); err != nil {
			seconds, err := strconv.ParseFloat(text, 64)
			if err != nil || !(seconds >= 0 && seconds < maxNumber) {
				return errors.New("it must be a time such as 2026-01-31T12:00:00Z, or a number of seconds after the start")
			}
			j.created = time.Unix(0, int64(seconds*1e9))
			j.relative = true
		}
		return nil
	},
	"seconds": func(j *row, text string) error {
		seconds, err := parseNumber(text, maxNumber)
		j.job.Run = time.Duration(seconds * float64(time.Second))
		return err
	},
	"cpus": func(j *row, text string) error {
		got, err := parseAmount(text)
		j.job.Needs.CPUs = float64(got)
		return err
	},
	"memory": func(j *row, text string) error {
		got, err := parseSize(text)
		j.job.Needs.Memory = int64(got)
		return err
	},
	"disk": func(j *row, text string) error {
		got, err := parseSize(text)
		j.job.Needs.Disk = int64(got)
		return err
	},
	"gpus": func(j *row, text string) error {
		got, err := parseCount(text)
		j.job.Needs.GPUs = int(got)
		return err
	},
	"arch": func(j *row, text string) error { j.job.Needs.Arch = text; return nil },
	"os":   func(j *row, text string) error { j.job.Needs.OS = text; return nil },
	"spot": func(j *row, text string) error {
		got, err := parseSpot(text)
		j.job.Needs.Spot = scale.Spot(got)
		return err
	},
}

type row struct {
	job      simulate.Job
	created  time.Time
	relative bool // created is after the start
}

// MaxLoadSize is how large a recorded load may be, in bytes.
const MaxLoadSize = 1 << 30

// ParseLoad reads a recorded load: CSV with a line of names, of which `created` and `seconds` must be there. The start is that of the load if its times
// are dates: the midnight before the first job, in UTC. It is zero if they are seconds.
func ParseLoad(name string, text []byte) (load []simulate.Job, start time.Time, err error) {
	text = bytes.TrimPrefix(text, []byte("\ufeff")) // with which Excel begins a file
	in := placed.Text{Name: name, Text: text}
	r := csv.NewReader(bytes.NewReader(text))
	r.ReuseRecord, r.TrimLeadingSpace, r.Comment = true, true, '#'
	names, err := r.Read()
	if err != nil {
		return nil, start, syntax(in, err)
	}
	names = slices.Clone(names)
	for i, column := range names {
		if slices.Contains(names[:i], column) {
			line, at := r.FieldPos(i)
			return nil, start, in.At(line, at, "", "there are two columns %q", column)
		}
		if columns[column] == nil {
			line, at := r.FieldPos(i)
			return nil, start, in.At(line, at, "the columns are created, seconds, cpus, memory, disk, gpus, arch, os and spot", "unknown column %q", column)
		}
	}
	for _, needed := range []string{"created", "seconds"} {
		if !slices.Contains(names, needed) {
			return nil, start, in.At(1, 1, "", "there is no column %q", needed)
		}
	}
	rows, err := readRows(in, r, names)
	if err != nil || len(rows) == 0 {
		return nil, start, err
	}
	slices.SortStableFunc(rows, func(a, b row) int { return a.created.Compare(b.created) })
	zero := time.Unix(0, 0)
	if !rows[0].relative {
		start = rows[0].created.UTC().Truncate(24 * time.Hour)
		zero = start
	}
	for _, one := range rows {
		one.job.At = one.created.Sub(zero)
		load = append(load, one.job)
	}
	return load, start, nil
}

func readRows(in placed.Text, r *csv.Reader, names []string) (rows []row, err error) {
	for {
		fields, err := r.Read()
		if errors.Is(err, io.EOF) {
			return rows, nil
		}
		if err != nil {
			return nil, syntax(in, err)
		}
		var one row
		for i, text := range fields {
			if text == "" && names[i] != "created" && names[i] != "seconds" {
				continue
			}
			if err := columns[names[i]](&one, text); err != nil {
				line, at := r.FieldPos(i)
				return nil, in.At(line, at, "", "%s: %v", names[i], err)
			}
		}
		if len(rows) > 0 && rows[0].relative != one.relative {
			line, at := r.FieldPos(slices.Index(names, "created"))
			return nil, in.At(line, at, "", "created: some are times, and some numbers of seconds")
		}
		if len(rows) >= simulate.MaxJobs {
			line, _ := r.FieldPos(0)
			return nil, in.At(line, 1, "", "a load can have %d jobs", simulate.MaxJobs)
		}
		rows = append(rows, one)
	}
}

// syntax is an error about what is not CSV.
func syntax(in placed.Text, err error) error {
	var at *csv.ParseError
	if errors.As(err, &at) {
		return in.At(at.Line, cmp.Or(at.Column, 1), "", "this is not valid CSV: %v", at.Err)
	}
	if errors.Is(err, io.EOF) {
		return in.At(0, 0, "write a line with the names of the columns", "the load is empty")
	}
	return err
}
