package tracefile

import (
	"io"

	"github.com/rungci/rung/steps/event"
	"github.com/rungci/rung/steps/trace"
	"github.com/rungci/rung/ui/joblog"
)

// exportJobLog writes the log of the run as GitLab has it.
func exportJobLog(w io.Writer, t *trace.Trace) error {
	r := joblog.New(joblog.Options{Timestamps: true, Sections: true, CollapseSetup: true})
	var buf []byte
	return t.Events(func(e event.Event) error {
		var err error
		if buf, err = r.Append(buf[:0], e); err != nil {
			return err
		}
		_, err = w.Write(buf)
		return err
	})
}
