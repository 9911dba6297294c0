package store

import (
	"encoding/csv"
	"io"
	"strconv"
	"time"

	"github.com/rungci/rung/fleet/scale"
)

// LoadWriter writes the jobs of a history as CSV that `rung fleet simulate` reads. Add is for ReadHistory.
type LoadWriter struct {
	// GaveUp is how many jobs the load lacks, as they have never run: nobody knows for how long they would have.
	GaveUp int

	out  *csv.Writer
	jobs int
}

// NewLoadWriter begins a load.
func NewLoadWriter(w io.Writer) *LoadWriter {
	l := &LoadWriter{out: csv.NewWriter(w)}
	_ = l.out.Write([]string{"created", "seconds", "cpus", "memory", "disk", "gpus", "arch", "os", "spot"}) // Flush returns the error
	return l
}

// Add writes the job of an entry, if it is about one that has ended. It returns whether what was written so far could be.
func (l *LoadWriter) Add(e Entry) bool {
	switch e.Kind {
	case GaveUp:
		l.GaveUp++
		return true
	case Over, Ended:
	default:
		return true
	}
	l.jobs++
	n := e.Needs
	return l.out.Write([]string{
		e.Asked.UTC().Format(time.RFC3339Nano), strconv.FormatFloat(max(0, e.At.Sub(e.Began).Seconds()), 'f', 3, 64),
		number(n.CPUs), number(float64(n.Memory)), number(float64(n.Disk)), number(float64(n.GPUs)), n.Arch, n.OS, spots[n.Spot],
	}) == nil
}

// Flush ends the load, and returns how many jobs it has.
func (l *LoadWriter) Flush() (int, error) {
	l.out.Flush()
	return l.jobs, l.out.Error()
}

// spots are the words of fleet/simulate/scenario.
var spots = map[scale.Spot]string{scale.AnySpot: "", scale.OnlySpot: "only", scale.NoSpot: "never"}

// number is empty for nothing.
func number(n float64) string {
	if n == 0 {
		return ""
	}
	return strconv.FormatFloat(n, 'f', -1, 64)
}
