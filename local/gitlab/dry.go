package gitlab

import (
	"context"
	"io"
	"net"
	"path/filepath"
	"sync/atomic"
	"time"

	"github.com/rungci/rung/executor"
	"github.com/rungci/rung/local/store"
	"github.com/rungci/rung/steps/event"
	"github.com/rungci/rung/steps/frontend/gitlabci/pipeline"
)

// dry is an attempt that is not made: it knows where everything would be.
func (p *Project) dry(j *pipeline.Job, o RunOptions, project string) *attempt {
	r := &runner{
		project: p, o: &o, id: "run", counter: new(atomic.Int64), levels: levelsOf(&o), once: &said{observer: o.Observer},
		issuer:   &issuer{publish: func(any) (string, error) { return "", nil }},
		manifest: map[*pipeline.Job]*store.Manifest{},
	}
	layout := executor.Layout{Project: project, Temp: project + ".tmp", Shared: true}
	root := p.Store.Root()
	a := &attempt{
		runner: r, job: j, number: 1, dry: true, id: 1, started: time.Now(), timeout: timeoutOf(j), env: &nowhere{layout}, layout: layout, project: project,
		places: places{
			cache: filepath.Join(root, "cache"), artifacts: filepath.Join(root, "artifacts", store.Slug(j.Name), r.id),
			releases: filepath.Join(root, "releases"), pages: filepath.Join(root, "pages"),
		},
	}
	return a
}

// nowhere is an environment that is not there.
type nowhere struct{ layout executor.Layout }

func (n *nowhere) Layout() executor.Layout                             { return n.layout }
func (n *nowhere) Connect(context.Context) (net.Conn, error)           { return nil, net.ErrClosed }
func (n *nowhere) Send(context.Context, string, io.Reader) error       { return net.ErrClosed }
func (n *nowhere) Fetch(context.Context, string, io.Writer) error      { return net.ErrClosed }
func (n *nowhere) Shell(context.Context, *executor.Shell) (int, error) { return -1, net.ErrClosed }
func (n *nowhere) Close(context.Context) error                         { return nil }

// collector is an Observer that keeps what is said.
type collector struct{ into *[]string }

func (c *collector) Run(string) Sink        { return discard{} }
func (c *collector) Say(_, text string)     { *c.into = append(*c.into, text) }
func (c *collector) Warn(_, text, _ string) { *c.into = append(*c.into, text) }
func (c *collector) Started(string)         {}
func (c *collector) Finished(Result)        {}

type discard struct{}

func (discard) Event(event.Event) {}
func (discard) Close() error      { return nil }
