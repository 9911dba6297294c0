package trace

import (
	"bufio"
	"encoding/json"
	"io"
	"slices"
	"strconv"
	"time"

	"github.com/rungci/rung/steps/event"
	"github.com/rungci/rung/steps/value"
)

// chromeEvent is an event of the Chrome Trace Event format. Times are in microseconds since the run began.
type chromeEvent struct {
	Name     string  `json:"name"`
	Category string  `json:"cat,omitempty"`
	Phase    string  `json:"ph"`
	Time     float64 `json:"ts"`
	Process  int     `json:"pid"`
	Thread   int     `json:"tid"`
	Args     any     `json:"args,omitempty"`
}

// chromeArgs is what a click on a step shows.
type chromeArgs struct {
	Step     string            `json:"step"`
	Status   event.Status      `json:"status"`
	ExitCode *int              `json:"exit_code,omitempty"`
	Ref      string            `json:"ref,omitempty"`
	Command  string            `json:"command,omitempty"`
	Error    string            `json:"error,omitempty"`
	Inputs   map[string]string `json:"inputs,omitempty"`
	Outputs  map[string]string `json:"outputs,omitempty"`
	Exports  map[string]string `json:"exports,omitempty"`
	LogBytes int64             `json:"log_bytes,omitempty"`
}

const (
	chromeProcess = 1
	chromeThread  = 1 // of the run and of everything that is not parallel
)

// writeChrome writes the steps as pairs of B and E events. A step nests in its parent on one thread; steps that run at the
// same time are on threads of their own.
func writeChrome(w io.Writer, t *Trace) error {
	c := &chrome{start: t.Run.Started, threads: chromeThread}
	c.meta("process_name", chromeThread, "run "+t.Run.ID)
	c.meta("thread_name", chromeThread, "steps")
	end := max(t.Run.Duration, 0)
	c.add(chromeEvent{Name: "run", Category: "run", Phase: "B", Thread: chromeThread, Args: chromeArgs{Status: t.Run.Status,
		ExitCode: t.Run.ExitCode, Inputs: valueTexts(t.Run.Inputs), Outputs: valueTexts(t.Run.Outputs), Error: message(t.Run.Error, "")}})
	c.siblings(t.Steps, chromeThread, 0, end, false)
	c.add(chromeEvent{Name: "run", Phase: "E", Time: micros(end), Thread: chromeThread})

	out := bufio.NewWriter(w)
	out.WriteString("{\"displayTimeUnit\": \"ms\", \"traceEvents\": [\n")
	for i, e := range c.events {
		line, err := json.Marshal(e)
		if err != nil {
			return err
		}
		out.Write(line)
		if i < len(c.events)-1 {
			out.WriteByte(',')
		}
		out.WriteByte('\n')
	}
	out.WriteString("]}\n")
	return out.Flush()
}

// chrome lays steps out on threads.
type chrome struct {
	start   time.Time
	events  []chromeEvent
	threads int // the highest number in use
	named   int // the highest number that has a name
}

func (c *chrome) add(e chromeEvent) {
	e.Process = chromeProcess
	c.events = append(c.events, e)
}

func (c *chrome) meta(kind string, thread int, name string) {
	c.named = max(c.named, thread)
	c.add(chromeEvent{Name: kind, Phase: "M", Thread: thread, Args: map[string]string{"name": name}})
}

// siblings adds steps that are in one list, all between from and to.
func (c *chrome) siblings(steps []*Step, thread int, from, to time.Duration, parallel bool) {
	// Steps inside parallel ones keep their threads: what runs beside them must not take these.
	byStart := slices.DeleteFunc(slices.Clone(steps), func(s *Step) bool { return s.Status == event.Skipped })
	slices.SortStableFunc(byStart, func(a, b *Step) int { return a.Started.Compare(b.Started) })
	parallel = parallel || background(byStart)
	lanes := []lane{{thread, from}}
	for _, s := range byStart {
		start := clamp(s.Started.Sub(c.start), from, to)
		i := 0
		for i < len(lanes) && lanes[i].until > start && overlaps(s, start, lanes[i].until, c.start) {
			i++
		}
		if i == len(lanes) {
			c.threads++
			lanes = append(lanes, lane{c.threads, from})
			if c.threads > c.named {
				c.meta("thread_name", c.threads, "parallel steps")
			}
		}
		start = max(start, lanes[i].until)
		end := clamp(s.Started.Add(s.Duration).Sub(c.start), start, to)
		c.step(s, lanes[i].thread, start, end, parallel)
		lanes[i].until = end
	}
}

// background reports whether one of the steps, in the order in which they began, goes on while later ones run.
func background(byStart []*Step) bool {
	for i := 1; i < len(byStart); i++ {
		if byStart[i-1].Started.Add(byStart[i-1].Duration).After(byStart[i].Started) {
			return true
		}
	}
	return false
}

// lane is a thread that is in use until some time.
type lane struct {
	thread int
	until  time.Duration
}

// overlaps reports whether a step really runs beside what is in a lane, and not only begins a rounding error before its end.
func overlaps(s *Step, start, until time.Duration, zero time.Time) bool {
	const noise = 500 * time.Microsecond
	return until-start > noise || s.Started.Add(s.Duration).Sub(zero) <= until
}

func (c *chrome) step(s *Step, thread int, from, to time.Duration, parallel bool) {
	args := chromeArgs{Step: s.ID, Status: s.Status, ExitCode: s.ExitCode, Ref: s.Ref, Error: message(s.Error, WithoutRounds(s.ID)),
		Inputs: valueTexts(s.Inputs), Outputs: valueTexts(s.Outputs), Exports: s.Exports}
	if s.Log != nil {
		args.LogBytes = s.Log.Bytes
	}
	if len(s.Attempts) > 0 {
		args.Command = commandText(s.Attempts[0].Command)
	}
	c.add(chromeEvent{s.label(), "step," + string(s.Status), "B", micros(from), chromeProcess, thread, args})
	if len(s.Attempts) > 1 {
		at := from
		for i, a := range s.Attempts {
			at = clamp(a.Started.Sub(c.start), at, to)
			name := "attempt " + strconv.Itoa(i+1)
			c.add(chromeEvent{Name: name, Category: "attempt", Phase: "B", Time: micros(at), Thread: thread,
				Args: map[string]any{"exit_code": a.ExitCode, "signal": a.Signal}})
			at = clamp(a.Started.Add(a.Duration).Sub(c.start), at, to)
			c.add(chromeEvent{Name: name, Phase: "E", Time: micros(at), Thread: thread})
		}
	}
	threads := c.threads
	c.siblings(s.Steps, thread, from, to, parallel || s.Kind == event.KindParallel)
	if !parallel {
		c.threads = threads // what comes later may be on the same threads
	}
	c.add(chromeEvent{Name: s.label(), Phase: "E", Time: micros(to), Thread: thread})
}

func clamp(d, low, high time.Duration) time.Duration { return max(low, min(d, high)) }

func micros(d time.Duration) float64 { return float64(d) / float64(time.Microsecond) }

// message is the text of an error at a step; the run is "".
func message(e *event.Error, step string) string {
	if e == nil {
		return ""
	}
	return e.Within(step)
}

func valueTexts(values map[string]value.Value) map[string]string {
	if values == nil {
		return nil
	}
	texts := make(map[string]string, len(values))
	for key, v := range values {
		texts[key] = valueText(v)
	}
	return texts
}
