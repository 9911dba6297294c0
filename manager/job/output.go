package job

import (
	"sync"
	"time"

	"github.com/rungci/rung/manager/joblog"
	"github.com/rungci/rung/steps/event"
	screen "github.com/rungci/rung/ui/joblog"
)

// output writes the log of a job as its events come.
type output struct {
	log     *joblog.File
	earlier int64       // bytes of the log that are not of this attempt
	failed  func(error) // called once, when the log cannot be written
	told    func([]byte)

	mu       sync.Mutex
	renderer *screen.Renderer
	buf      []byte
	wrong    error
	ended    bool // nothing comes beside the events any more
}

// beside is Event for what belongs to no run, and comes in the middle of one. After the end it is dropped.
func (o *output) beside(e event.Event) {
	o.mu.Lock()
	ended := o.ended
	o.mu.Unlock()
	if !ended {
		o.Event(e)
	}
}

func (o *output) end() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.ended = true
}

// Event implements event.Sink.
func (o *output) Event(e event.Event) { o.before(e, func() {}) }

// before is Event for one that comes before the run: also is called in the same order as the events are written.
func (o *output) before(e event.Event, also func()) {
	o.mu.Lock()
	defer o.mu.Unlock()
	also()
	if o.wrong != nil {
		return
	}
	var err error
	if o.buf, err = o.renderer.Append(o.buf[:0], e); err == nil && len(o.buf) > 0 {
		err = o.log.Append(o.buf)
	}
	if err != nil {
		o.wrong = err
		go o.failed(err) // which may wait for what is being said here
		return
	}
	if o.told != nil && len(o.buf) > 0 {
		o.told(o.buf)
	}
}

func (o *output) err() error {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.wrong
}

// last shows how a job ended whose log cannot be written.
func (o *output) last(as screen.Options, end event.RunFinished) {
	o.mu.Lock()
	defer o.mu.Unlock()
	shown := screen.Options{Timestamps: as.Timestamps, TokenPrefixes: as.TokenPrefixes}
	o.buf = o.buf[:0]
	if o.log.Size() == 0 {
		shown.Runner = as.Runner
	} else {
		o.buf = append(o.buf, '\n') // it may have ended in the middle of a line
	}
	var err error
	if o.buf, err = screen.New(shown).Append(o.buf, event.Event{Time: time.Now().UTC(), Body: end}); err != nil {
		return // a log that begins cannot be another one
	}
	o.log.Last(o.buf)
	if o.told != nil {
		o.told(o.buf)
	}
}

// again begins the log of another attempt behind what there is.
func (o *output) again(as screen.Options) (earlier int64) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.anew(as)
	return o.earlier
}

// lost goes on with a log whose events cannot be had any more, if it is behind what an earlier process wrote: what follows is shown as it comes.
func (o *output) lost(as screen.Options) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.renderer.Position().Bytes < o.log.Size()-o.earlier {
		o.anew(screen.Options{Timestamps: as.Timestamps})
	}
}

// anew begins a log on a line of its own. The caller holds the lock.
func (o *output) anew(as screen.Options) {
	o.renderer = screen.New(as)
	if o.log.Size() > 0 {
		if err := o.log.Append([]byte{'\n'}); err != nil {
			o.wrong = err
		}
	}
	o.earlier = o.log.Size()
}
